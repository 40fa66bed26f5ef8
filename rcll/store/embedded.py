"""PostgreSQL without a server: starts, shares and stops the one whose data lie under RCLL_HOME.

What runs is told by three files with a ``flock`` beside the data. The kernel drops such a lock with its
last holder, however that ended (kill -9 too), while a pid in a file may be a zombie's or another process's.

``start.lock``   exclusive, held while somebody starts or stops the server.
``users.lock``   shared, one holder per :class:`EmbeddedServer`; who can make it exclusive was the last one.
``server.lock``  exclusive, inherited by the postmaster and all its backends: free means that no process of an
                 earlier server works on the data any more, so that ``postmaster.pid`` is stale for certain.

(POSIX record locks, as of ``fcntl.lockf``, would not do: they belong to a process, so that a second user in
the same process is not counted, and they are not inherited.)
"""

import errno
import fcntl
import os
import re
import shlex
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from rcll.errors import Busy, DatabaseError, InputError, RcllError, Unreachable
from rcll.logs import get_logger
from rcll.store.binaries import Binaries, is_private, telling_line
from rcll.store.datadir import SUPERUSER, place_data, prepare_data
from rcll.store.sql import query

log = get_logger(__name__)

PORT = 5432  # a part of the socket's name only: nothing listens on the network
EXTENSIONS = ("vector", "pg_trgm")

_CONFIGURATION = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "shared_buffers": "128MB",
    "max_connections": "100",
    "maintenance_work_mem": "256MB",  # pgvector builds its indexes there
    "max_wal_size": "2GB",  # fewer checkpoints during bulk loads
    # Start, stop, recovery and panics; an error goes to its client, and could quote memory texts here.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
}
_START_SECONDS = 120  # crash recovery after a bulk load takes its time
_ORPHAN_SECONDS = 15  # backends of a killed postmaster end when they look up from their work
_ANSWER_SECONDS = 10
_STOP_SECONDS = 30
_LASTING = (psycopg.errors.ConnectionTimeout, psycopg.errors.DiskFull)  # waiting does not help
_POLL_SECONDS = 0.02
_LOG_BYTES = 1_000_000
_SHM_BYTES = 1 << 30
_SOCKET_PATH_BYTES = 107  # sun_path without its closing zero
_PLAIN_PATH = re.compile(r"[\w/.+-]+", re.ASCII)  # goes through a shell and a comma-separated list


class EmbeddedServer:
    """The PostgreSQL server of one RCLL_HOME, as a context manager.

    Entering starts the server, or joins it where another command has it running; leaving stops it with its
    last user. Entered in the main thread, it turns SIGTERM and SIGHUP into SystemExit, so that it is left.

    Args:
        home: RCLL_HOME; everything of the server lies in ``<home>/postgres``.

    Raises:
        InputError: the folder cannot be used.
        DatabaseError: the server cannot start; the message holds PostgreSQL's own reason.
        Busy: another process starts or stops it, or works on its data, for too long.
    """

    def __init__(self, home: Path) -> None:
        self._home = home.expanduser().absolute()
        self._folder = self._home / "postgres"
        self._stack = ExitStack()
        self._sockets: Path | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack, _named_after(self._home):
            stack.enter_context(_signals_end_the_program())
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._starting_or_stopping():
                self._binaries = Binaries(self._folder / "data")
                self._data = place_data(self._folder, self._binaries)
                users = _open_lock(self._data.with_name("users.lock"))
                stack.callback(self._leave, users)
                fcntl.flock(users, fcntl.LOCK_SH)
                self._serve()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def url(self, database: str = SUPERUSER) -> str:
        """Give the libpq address of one database: a private unix socket."""
        if self._sockets is None:
            raise RcllError("the embedded server is not running; expected 'with EmbeddedServer(home)'")
        return _url(self._sockets, database)

    @contextmanager
    def _starting_or_stopping(self) -> Generator[None]:
        """Hold ``start.lock``; its text is the pid of the last holder, for the message."""
        lock = _open_lock(self._folder / "start.lock")
        try:
            deadline = time.monotonic() + _START_SECONDS
            while not _is_mine(lock):
                if time.monotonic() > deadline:
                    holder = os.pread(lock, 20, 0).decode(errors="replace").strip()
                    raise Busy(
                        f"process {holder} has been starting or stopping the server in {self._folder} "
                        f"for {_START_SECONDS} s; expected less; wait for it, or end it, and try again"
                    )
                time.sleep(_POLL_SECONDS)
            os.pwrite(lock, f"{os.getpid():<20}".encode(), 0)
            yield
        finally:
            os.close(lock)

    def _leave(self, users: int) -> None:
        """Stop the server if nobody else uses it; a failure is said, not raised: the work itself is done."""
        self._sockets = None
        try:
            with self._starting_or_stopping():
                if _is_mine(users):
                    self._stop()
                fcntl.flock(users, fcntl.LOCK_UN)
        except (OSError, RcllError) as error:
            log.warning("the embedded server in %s was not stopped: %s", self._folder, error)
        finally:
            os.close(users)

    def _serve(self) -> None:
        """Start or join the server until it answers: it may be dying, or recovering, when we come."""
        deadline = time.monotonic() + _ORPHAN_SECONDS
        while True:
            self._sockets = self._start_or_join()
            try:
                return self._create_database()
            except psycopg.Error as error:
                is_lasting = isinstance(error, _LASTING) or not isinstance(error, psycopg.OperationalError)
                if is_lasting or time.monotonic() > deadline:
                    raise Unreachable(
                        f"the embedded server in {self._folder} does not work: {str(error).splitlines()[0]}; expected "
                        f"an answer in {_ANSWER_SECONDS} s; if its processes are stopped, let them go on or end them"
                    ) from None
            time.sleep(_POLL_SECONDS)

    def _start_or_join(self) -> Path:
        """Return the folder of the socket of a server that is ready."""
        begun = time.monotonic()
        while True:
            lock = _open_lock(self._data.with_name("server.lock"))
            try:
                if _is_mine(lock):
                    return self._start(lock)
            finally:
                os.close(lock)  # never unlock: the postmaster shares the lock by inheritance
            found = self._postmaster()
            if found and found.is_ready:
                return found.sockets
            if time.monotonic() - begun > (_START_SECONDS if found else _ORPHAN_SECONDS):
                raise Busy(
                    f"processes of an earlier server still work on {self._data}; expected them to end; "
                    "wait and try again, or end the postgres processes of that folder"
                )
            time.sleep(_POLL_SECONDS)

    def _start(self, lock: int) -> Path:
        """Start the server, which inherits ``lock``; nobody else works on the data."""
        prepare_data(self._data, self._binaries)
        sockets = self._socket_folder()
        (self._data / "postmaster.pid").unlink(missing_ok=True)  # stale; its number may be anybody's by now
        options = _CONFIGURATION | {
            "unix_socket_directories": str(sockets),
            "dynamic_shared_memory_type": _shared_memory(),
        }
        flags = shlex.join(f"-c{name}={value}" for name, value in options.items())
        self._rotate_log()
        try:
            self._pg_ctl("start", f"-t{_START_SECONDS}", "-o", flags, keep=(lock,))
        except BaseException:  # SystemExit and KeyboardInterrupt too
            if not _listens(sockets):
                shutil.rmtree(sockets, ignore_errors=True)
            raise
        return sockets

    def _stop(self) -> None:
        """Stop the server in order once it answers; else, or if that takes too long, at once.

        PostgreSQL 18.6 never ends when it is asked to while it recovers from the crash of one backend. Nothing is
        lost by stopping it at once: the next start recovers.
        """
        deadline = time.monotonic() + _ORPHAN_SECONDS
        while self._is_alive():
            found = self._postmaster()
            if found and _answers(found.sockets):
                with suppress(DatabaseError):
                    self._end(found, "fast")
                    return
            if time.monotonic() > deadline:
                if found:
                    self._end(found, "immediate")
                return
            time.sleep(_POLL_SECONDS)  # a start was interrupted, or the postmaster was killed

    def _end(self, found: "_Postmaster", mode: str) -> None:
        """Signal the postmaster: its pid is true, because it listens on the socket that is ours alone."""
        self._pg_ctl("stop", "-m", mode, f"-t{_STOP_SECONDS}")
        shutil.rmtree(found.sockets, ignore_errors=True)

    def _pg_ctl(self, action: str, *arguments: str, keep: Sequence[int] = ()) -> None:
        with (self._folder / "server.log").open("ab+") as output:
            begin = output.tell()
            code = self._binaries.run(
                "pg_ctl", action, "-s", "-w", "-D", self._data.name, *arguments,
                folder=self._data.parent, output=output, keep=keep,
            )  # fmt: skip
            if code != 0:
                raise DatabaseError(
                    f"the embedded PostgreSQL does not {action}: {telling_line(output, begin)}; "
                    f"see {self._folder / 'server.log'}"
                )

    def _is_alive(self) -> bool:
        """Say whether any process of a server works on the data."""
        lock = _open_lock(self._data.with_name("server.lock"))
        try:
            return not _is_mine(lock)
        finally:
            os.close(lock)

    def _postmaster(self) -> "_Postmaster | None":
        """Give the postmaster that listens on our socket."""
        found = _read_postmaster(self._data)
        if found and is_private(found.sockets, self._binaries.uid) and _listens(found.sockets):
            return found
        return None

    def _rotate_log(self) -> None:
        path = self._folder / "server.log"
        with suppress(FileNotFoundError):
            if path.stat().st_size > _LOG_BYTES:
                path.replace(path.with_suffix(".log.old"))

    def _socket_folder(self) -> Path:
        """Return a private folder whose path fits a socket's address.

        After a crash it is the same as before, so that addresses handed out earlier hold again.
        """
        old = _read_postmaster(self._data)
        if old and is_private(old.sockets, self._binaries.uid) and not _listens(old.sockets):
            for leftover in old.sockets.iterdir():
                leftover.unlink()  # the lock file there names a pid too
            return old.sockets
        for parent in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp")):  # noqa: S108 - mkdtemp
            longest = f"{parent}/rcll-12345678/.s.PGSQL.{PORT}"
            if len(os.fsencode(longest)) > _SOCKET_PATH_BYTES or not _PLAIN_PATH.fullmatch(parent):
                continue
            with suppress(OSError):
                folder = Path(tempfile.mkdtemp(prefix="rcll-", dir=parent))
                if self._binaries.can_reach(folder.parent):
                    self._binaries.hand_over(folder)
                    return folder
                folder.rmdir()
        raise InputError("no folder for PostgreSQL's socket; expected a short TMPDIR, or /tmp, that can be written")

    def recreate_database(self, name: str) -> None:
        """Make an empty database, in place of one that bears the name already."""
        with self._connect("postgres") as conn:
            conn.execute(query("drop_database", name=sql.Identifier(name)))
            conn.execute(query("create_database", name=sql.Identifier(name)))

    def has_database(self, name: str) -> bool:
        """Whether there is a database of this name."""
        with self._connect("postgres") as conn:
            return conn.execute(query("has_database"), {"name": name}).fetchone() is not None

    def _create_database(self) -> None:
        """Make the database with its extensions; whoever sees its name sees it complete."""
        draft = f"{SUPERUSER}_new"
        with self._connect("postgres") as conn:
            if conn.execute(query("has_database"), {"name": SUPERUSER}).fetchone():
                return
            conn.execute(query("drop_database", name=sql.Identifier(draft)))
            conn.execute(query("create_database", name=sql.Identifier(draft)))
            with self._connect(draft) as inside:
                for extension in EXTENSIONS:
                    inside.execute(query("create_extension", extension=sql.Identifier(extension)))
            conn.execute(query("rename_database", old=sql.Identifier(draft), new=sql.Identifier(SUPERUSER)))

    def _connect(self, database: str) -> psycopg.Connection:
        return psycopg.connect(self.url(database), autocommit=True, connect_timeout=_ANSWER_SECONDS)


@dataclass(frozen=True)
class _Postmaster:
    """What ``postmaster.pid`` says (utils/pidfile.h): folder of its socket, and whether it takes clients."""

    sockets: Path
    is_ready: bool


def _read_postmaster(data: Path) -> _Postmaster | None:
    try:
        lines = (data / "postmaster.pid").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    if len(lines) < 5 or not lines[4].startswith("/"):  # noqa: PLR2004 - the fifth line is the folder
        return None
    return _Postmaster(Path(lines[4]), len(lines) > 7 and lines[7].strip() == "ready")  # noqa: PLR2004


def _listens(sockets: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        # EAGAIN: its queue is full, as of a stopped process
        return probe.connect_ex(str(sockets / f".s.PGSQL.{PORT}")) in (0, errno.EAGAIN)


def _answers(sockets: Path) -> bool:
    with suppress(psycopg.OperationalError):
        psycopg.connect(_url(sockets, "postgres"), connect_timeout=_ANSWER_SECONDS).close()
        return True
    return False


def _url(sockets: Path, database: str) -> str:
    return f"postgresql://{SUPERUSER}@/{quote(database, safe='')}?host={sockets}&port={PORT}"


def _shared_memory() -> str:
    """Choose files where /dev/shm is too small for parallel index builds, as in containers (64 MB)."""
    try:
        return "posix" if shutil.disk_usage("/dev/shm").free >= _SHM_BYTES else "mmap"  # noqa: S108
    except OSError:
        return "mmap"


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _is_mine(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _named_after(home: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"RCLL_HOME {home} cannot be used: {error.strerror or error}; expected a folder that can be "
            "written; set RCLL_HOME to one, or RCLL_DATABASE_URL to a server"
        ) from error


@contextmanager
def _signals_end_the_program() -> Generator[None]:
    """Turn SIGTERM and SIGHUP into SystemExit, where the program has not decided otherwise."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [s for s in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(s) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _end_the_program)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _end_the_program(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)
