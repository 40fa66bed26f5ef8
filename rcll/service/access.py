"""Who may read and write which banks, and the keys that say so."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

_PREFIX = "rcll"


@dataclass(frozen=True, slots=True)
class Access:
    """Patterns of banks, such as team-*; a name without pattern signs stands for itself."""

    may_read: tuple[str, ...]
    may_write: tuple[str, ...]

    def reads(self, bank: str) -> bool:
        """Whether the caller may see the bank."""
        return _matches(bank, self.may_read)

    def writes(self, bank: str) -> bool:
        """Whether the caller may change the bank."""
        return _matches(bank, self.may_write)

    @property
    def reads_all(self) -> bool:
        """Whether no bank is closed to the caller."""
        return "*" in self.may_read

    def readable(self, banks: Iterable[str]) -> list[str]:
        """Those of the banks that the caller may see."""
        return [bank for bank in banks if self.reads(bank)]


EVERYTHING = Access(("*",), ("*",))


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key as it is shown once, and what is kept of it."""

    key_id: str
    secret: str
    hash: str


def make_key() -> NewKey:
    """A key of 256 random bits, named by a number of its own."""
    key_id = secrets.token_hex(6)
    secret = f"{_PREFIX}_{key_id}_{secrets.token_urlsafe(32)}"
    return NewKey(key_id, secret, hash_secret(secret))


def key_number(secret: str) -> str | None:
    """Number of a key as a client sends it; None where it is no key of ours."""
    found = re.fullmatch(rf"{_PREFIX}_([0-9a-f]+)_[\w-]+", secret, re.ASCII)
    return found[1] if found else None


def hash_secret(secret: str) -> str:
    """What is kept of a secret; it is random and long, so that no slow hash is needed."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def is_secret(secret: str, kept: str) -> bool:
    """Whether a secret is the one of which the hash was kept."""
    return hmac.compare_digest(hash_secret(secret), kept)


def _matches(bank: str, patterns: Sequence[str]) -> bool:
    return any(bank == pattern or fnmatchcase(bank, pattern) for pattern in patterns)
