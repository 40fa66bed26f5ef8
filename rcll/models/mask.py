"""Masks secrets in memory texts: before a text leaves the machine, and before a closet quotes it.

The shapes of vendors' keys come from detect-secrets; its scanner is made for files of code, works line by
line, wants quotes round a value and keeps global settings, so only its expressions are used, on running
text. What memories hold beside keys (connection strings, ``password: …`` in prose, bearer tokens, private
key blocks, newer key shapes) is added here. A mask too many costs a word; one too few costs a secret.
"""

import re
from collections.abc import Callable
from functools import cache

PLACEHOLDER = "[secret]"

#: Characters read beyond a cut, so that a key that straddles it is still whole enough to be recognised.
_SLACK = 1_000

_WORDS = (
    r"pass(?:word|wd|phrase|code)|pwd|passwort|kennwort|contraseña|contrasena|senha|"
    r"mot[ ]de[ ]passe|wachtwoord|пароль|hasło|密码|パスワード"
)
_KEYS = (
    rf"(?:{_WORDS}|secret|token|credentials?|api[ _-]?key|(?:access|account|auth|client|db|encryption|master|private|"
    r"secret|service|shared|signing)[ _-]?key|signature)"
)
_NAME = rf"{_KEYS}(?:[_-]\w{{1,20}})?[\"'`\]]{{0,2}}"
_QUOTED = r"\"[^\"\n]{3,200}\"|'[^'\n]{3,200}'|`[^`\n]{3,200}`"
_BARE = r"[^\s\"'`,;&<>(){}]{3,}"
#: Prose after a colon ("password: must be long") is no secret; a value with a digit or a sign is.
_TELLING = r"(?=[^\s\"'`,;]{0,100}[0-9!#$%&*+/=?@^_~\\|-])[^\s\"'`,;<>(){}]{5,}"

_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)"
    r"|PuTTY-User-Key-File-\d.*?(?:Private-MAC:[^\n]*|\Z)",
    re.DOTALL,
)
#: Each pattern keeps group "keep" and masks the rest of the match.
_KEEPING = (
    # user:password@ and token@ in a URL or a connection string
    re.compile(
        r"(?P<keep>\b[a-z][a-z0-9+.-]{1,20}://)(?:[^\s/@\"'<>]{0,100}:[^\s@\"'<>]{1,200}|[^\s/@:\"'<>]{16,200})(?=@)",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?P<keep>\b(?:bearer|authorization:\s*\w+|basic)\s+)(?=[^\s\"']*[0-9=._-])[\w.+/=~-]{12,}", re.IGNORECASE
    ),
    re.compile(r"(?P<keep>(?:^|\s)--?[a-z-]{0,20}" + _KEYS + r"[= ])(?:" + _QUOTED + r"|\S{3,})", re.IGNORECASE),
    re.compile(r"(?P<keep>(?:^|\s)(?:-u|--user)[= ][\w.-]{1,60}:)\S{3,}"),
    re.compile(rf"(?P<keep>{_NAME}\s{{0,3}}(?::=|=>|[!=]?=)\s{{0,3}}@?)(?:{_QUOTED}|{_BARE})", re.IGNORECASE),
    re.compile(
        rf"(?P<keep>{_NAME}\s{{0,3}}(?:[:\uff1a]|\b(?:is|was|are|ist|lautet|est|es|é)\b|->)\s{{1,3}}|{_NAME}[:\uff1a])(?:{_QUOTED}|{_TELLING})",
        re.IGNORECASE,
    ),
    re.compile(
        rf"(?P<keep>(?:{_WORDS})\s?[:\uff1a]\s{{0,3}})[^\s\"'`,;.]{{4,60}}(?=[.,;)]?\s*(?:$|\n))", re.IGNORECASE
    ),
    re.compile(r"(?P<keep>[?&](?:sig|key|code|auth|sid|jwt|access_key)=)[^\s&\"'<>]{6,}", re.IGNORECASE),
)
#: Key shapes that detect-secrets 1.5 does not know, or knows only in an older form.
_SHAPES = (
    re.compile(r"\bgithub_pat_\w{20,}"),
    re.compile(r"\bsk-[\w-]{20,}"),
    re.compile(r"\b[rsp]k_(?:test|live)_\w{10,}|\bwhsec_[\w+/=]{16,}"),
    re.compile(r"\bAIza[\w-]{30,}|\bya29\.[\w-]{20,}"),
    re.compile(r"\b(?:hf|npm|dckr_pat|dop_v1|shpat|lin_api|glc|ntn|pat)_[A-Za-z0-9_-]{20,}"),
    re.compile(r"_authToken\s?=\s?\S+"),
    re.compile(r"\bxapp-[\w-]{20,}|\bhv[sbr]\.[\w-]{20,}|\bAGE-SECRET-KEY-1\w{20,}"),
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"),
)
_RANDOM_LOOKING = re.compile(r"(?<![\w/+=.-])[A-Za-z0-9+/_-]{32,200}={0,2}(?![\w/+=-])")
_ENTROPY_BITS = 4.5
"""Bits a character, detect-secrets' own limit for base64; paths and identifiers stay below 4.2."""


def mask_secrets(text: str) -> str:
    """Put ``[secret]`` where the text holds a key, a password, a token or a credential.

    The same text gives the same result, and a masked text stays as it is. Time grows with the length;
    take ``masked_head`` for texts of any size.
    """
    text = _PRIVATE_KEY.sub(PLACEHOLDER, text)
    for pattern in _KEEPING:
        text = pattern.sub(rf"\g<keep>{PLACEHOLDER}", text)
    for pattern in (*_SHAPES, *_vendor_shapes()):
        text = pattern.sub(_mask_groups, text)
    return _RANDOM_LOOKING.sub(_mask_random, text)


def masked_head(text: str, limit: int) -> str:
    """The first ``limit`` characters of the masked text; a megabyte is never scanned for a page."""
    return mask_secrets(text[: limit + _SLACK])[:limit]


def _mask_groups(match: re.Match[str]) -> str:
    """Mask the last group, as detect-secrets marks the value inside a longer expression, else everything."""
    if not match.lastindex or match.group(match.lastindex) is None:
        return PLACEHOLDER
    start, end = (i - match.start() for i in match.span(match.lastindex))
    return match.group()[:start] + PLACEHOLDER + match.group()[end:]


def _mask_random(match: re.Match[str]) -> str:
    token = match.group()
    kinds = (str.isupper, str.islower, str.isdigit)
    is_mixed = all(any(map(kind, token)) for kind in kinds)
    return PLACEHOLDER if is_mixed and _entropy()(token) > _ENTROPY_BITS else token


@cache
def _vendor_shapes() -> tuple[re.Pattern[str], ...]:
    """The expressions of detect-secrets for keys with a recognisable shape."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class  # noqa: PLC0415 - 0.14 s
    from detect_secrets.plugins.base import RegexBasedDetector  # noqa: PLC0415

    # The last four allow any run of blanks in three places, which is cubic in it; keywords and entropy above
    # see what they look for. An address is no secret; blocks, URLs, JWT and npm tokens are masked above.
    skipped = {"IPPublicDetector", "PrivateKeyDetector", "BasicAuthDetector", "JwtTokenDetector", "NpmDetector"}
    skipped |= {"CloudantDetector", "IbmCloudIamDetector", "IbmCosHmacDetector", "SoftlayerDetector"}
    detectors = [c for c in get_mapping_from_secret_type_to_class().values() if issubclass(c, RegexBasedDetector)]
    return tuple(p for c in detectors if c.__name__ not in skipped for p in c().denylist)


@cache
def _entropy() -> Callable[[str], float]:
    from detect_secrets.plugins.high_entropy_strings import Base64HighEntropyString  # noqa: PLC0415

    return Base64HighEntropyString().calculate_shannon_entropy
