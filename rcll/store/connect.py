"""Opens the database that the settings name: the embedded server, or PostgreSQL with pgvector at a URL."""

import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import conninfo
from psycopg.rows import TupleRow

from rcll.errors import DatabaseError, InputError, Unreachable
from rcll.settings import Settings
from rcll.store.embedded import EmbeddedServer
from rcll.store.sql import query

#: A connection as :meth:`Database.connect` opens it.
Connection = psycopg.Connection[TupleRow]

_entering = threading.Lock()
_running: dict[Path, tuple[EmbeddedServer, int]] = {}

MINIMUM_POSTGRESQL = 15
MINIMUM_PGVECTOR = (0, 8)
CONNECT_SECONDS = 10

_SCHEMES = ("postgresql", "postgres")
_EXPECTED = (
    "expected postgresql://USER:PASSWORD@HOST:5432/DATABASE, with special characters of the password "
    "percent-encoded (@ as %40); correct RCLL_DATABASE_URL"
)
_ADVICE = (  # what libpq or the server say in English, and what to do about it
    ("password", "correct user and password in RCLL_DATABASE_URL"),
    ("role", "correct the user in RCLL_DATABASE_URL"),
    ("pg_hba", "let this machine and user in (pg_hba.conf)"),
    ("database", "create the database, or correct its name in RCLL_DATABASE_URL"),
    ("resolve", "correct the host in RCLL_DATABASE_URL"),
    ("translate host name", "correct the host in RCLL_DATABASE_URL"),
    ("too many", "try again when other clients have left"),
)


@dataclass(frozen=True)
class Database:
    """A PostgreSQL database that rcll can work on; holds no connection."""

    url: str = field(repr=False)
    """libpq address; may hold a password."""
    is_embedded: bool

    def connect(self, **kwargs: Any) -> psycopg.Connection[TupleRow]:
        """Open a connection in autocommit mode, fit for PgBouncer's transaction pooling.

        Args:
            kwargs: parameters of ``psycopg.connect``, over those of the URL, over ours.

        Raises:
            InputError: the URL cannot be read.
            Unreachable: nobody answers, or the user, password or database is refused; never shows a password.
        """
        given = _parse(self.url)
        ours: dict[str, Any] = {
            "autocommit": True,
            "prepare_threshold": None,  # a pooler gives each transaction another server connection
            "application_name": "rcll",
            "client_encoding": "utf8",
            "connect_timeout": CONNECT_SECONDS,
        }
        try:
            return psycopg.connect(self.url, **{k: v for k, v in ours.items() if k not in given} | kwargs)
        except psycopg.OperationalError as error:
            raise Unreachable(_explain(error, given, is_embedded=self.is_embedded)) from None
        except psycopg.ProgrammingError:  # an option of no sense; libpq's complaint quotes its value
            raise InputError(f"an option of the database address cannot be used; {_EXPECTED}") from None


def without_password(url: str) -> tuple[str, str | None]:
    """A database address as libpq's key words, less the password, and the password.

    Raises:
        InputError: the URL cannot be read.
    """
    given = _parse(url)
    password = given.pop("password", None)
    return conninfo.make_conninfo("", **given), password


@contextmanager
def open_database(settings: Settings) -> Generator[Database]:
    """Give the database of the settings; the embedded server runs as long as somebody is inside.

    Raises:
        InputError: the URL or RCLL_HOME cannot be used.
        Unreachable: nobody answers at the URL.
        DatabaseError: PostgreSQL or pgvector are too old or missing.
    """
    if settings.database_url is None:
        with _shared_server(settings.home) as server:
            yield Database(server.url(settings.database), is_embedded=True)
    else:
        database = Database(settings.database_url.get_secret_value().strip(), is_embedded=False)
        with database.connect() as conn:
            row = conn.execute(query("server_facts")).fetchone()
        assert row is not None
        check_versions(*row)
        yield database


@contextmanager
def _shared_server(home: Path) -> Generator[EmbeddedServer]:
    """One EmbeddedServer a process and home, however many threads are inside.

    Entering one as root forks. OpenBLAS ends its threads at a fork, and a product that another thread is
    computing then waits for them for ever; so a task that only joins must not fork.
    """
    with _entering:
        server, n_users = _running.get(home) or (EmbeddedServer(home).__enter__(), 0)
        _running[home] = server, n_users + 1
    try:
        yield server
    finally:
        with _entering:
            server, n_users = _running.pop(home)
            if n_users > 1:
                _running[home] = server, n_users - 1
            else:
                server.__exit__()


def check_versions(database: str, postgresql: int, installed: str | None, offered: str | None) -> None:
    """Refuse what rcll is not tested with.

    Args:
        database: its name, for the message.
        postgresql: server_version_num, such as 150004.
        installed: version of pgvector in this database.
        offered: version of pgvector that the server could install.

    Raises:
        DatabaseError: too old, or not installed.
    """
    if postgresql < MINIMUM_POSTGRESQL * 10_000:
        raise DatabaseError(
            f"the server is PostgreSQL {postgresql // 10_000}.{postgresql % 10_000}; "
            f"expected {MINIMUM_POSTGRESQL} or newer; upgrade it, or use another server"
        )
    minimum = ".".join(map(str, MINIMUM_PGVECTOR))
    if installed is None:
        todo = "" if offered else "install its package on the server, then "
        raise DatabaseError(
            f"pgvector is not installed in database '{database}' (the server offers {offered or 'none'}); "
            f"expected {minimum} or newer; {todo}run CREATE EXTENSION vector in that database"
        )
    if tuple(int(number) for number in re.findall(r"\d+", installed)[:2]) < MINIMUM_PGVECTOR:
        raise DatabaseError(
            f"database '{database}' has pgvector {installed} (the server offers {offered}); expected {minimum} "
            "or newer; upgrade the server's package if need be, then run ALTER EXTENSION vector UPDATE there"
        )


def _parse(url: str) -> dict[str, Any]:
    """Read a URL into libpq's parameters, and refuse where part of a password would pass for something else.

    libpq's own complaints are not shown: they could quote the password.
    """
    scheme, colon, _ = url.partition("://")
    if not colon or not re.fullmatch(r"[A-Za-z][\w+.-]*", scheme):
        raise InputError(f"the database address is not a URL; {_EXPECTED}")
    if scheme not in _SCHEMES:
        raise InputError(f"the database address begins with '{scheme}://'; {_EXPECTED}")
    try:
        given = conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise InputError(f"the database address cannot be read; {_EXPECTED}") from None
    ports = str(given.get("port", ""))
    if "@" in f"{given.get('host')}{given.get('dbname')}" or not re.fullmatch(r"[\d,]*", ports):
        raise InputError(f"the database address has an '@', '/' or port where none can be; {_EXPECTED}")
    return given


def _explain(error: psycopg.OperationalError, given: dict[str, Any], *, is_embedded: bool) -> str:
    """Make one line of what libpq says in several; it quotes user, host and database, never a password."""
    lines = [line.strip(" -\t") for line in str(error).splitlines() if line.strip()]
    telling = next((line for line in lines if "FATAL:" in line or "failed: " in line), lines[0])
    reason = re.sub(r"^(.*? failed: )*(FATAL:\s*)?", "", telling)
    advice = next(
        (todo for words, todo in _ADVICE if words in reason), "start the server, or correct RCLL_DATABASE_URL"
    )
    if is_embedded:
        is_missing = "does not exist" in reason
        advice = "correct RCLL_DATABASE" if is_missing else "run the command again: it starts the embedded server"
    where = f"{given.get('host', 'the local socket')}:{given.get('port', 5432)}"
    return f"no connection to database '{given.get('dbname', given.get('user', ''))}' at {where}: {reason}; {advice}"
