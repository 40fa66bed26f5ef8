"""One embedded server for the whole tier, and a cloned template database for each test.

A test module that needs tables makes its template once and clones it for every test::

    @pytest.fixture(scope="module")
    def legacy(make_template):
        return make_template("legacy", lambda database: ...)   # runs once a session for each name

    def test_something(legacy, clone):
        database = clone(legacy)                # a Database of its own, dropped afterwards
        with database.connect() as conn: ...

``fresh_database`` is a clone of the empty template: extensions vector and pg_trgm, nothing else.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from rcll.store.catalog import Tenant, read_tenants
from rcll.store.connect import Database
from rcll.store.embedded import EmbeddedServer
from tests.integration.places import fill
from tests.integration.walks import Walk, migrated

EMPTY = "rcll"
DATABASES = Path(__file__).parent / "databases"


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    """One running embedded server in a home of its own.

    Not under tmp_path: pytest closes that to other accounts, and PostgreSQL does not run as root.
    """
    with _temporary_home() as home, EmbeddedServer(home) as running:
        yield running


@contextmanager
def _temporary_home() -> Generator[Path]:
    home = Path(tempfile.mkdtemp(prefix="rcll-test-"))
    home.chmod(0o711)
    try:
        yield home
    finally:
        link = home / "postgres" / "data"
        if link.is_symlink():  # TMPDIR itself is closed: the data were put elsewhere
            shutil.rmtree(link.readlink().parent, ignore_errors=True)
        shutil.rmtree(home)


def _stop_leftover(home: Path) -> None:
    """Join and leave, as the next command would, where a failed test left a server."""
    if (home / "postgres" / "data" / "postmaster.pid").exists():
        with EmbeddedServer(home):
            pass


@pytest.fixture
def bare_home() -> Iterator[Path]:
    """An empty home of the test's own."""
    with _temporary_home() as home:
        yield home
        _stop_leftover(home)


@pytest.fixture(scope="session")
def _used_home() -> Iterator[Path]:
    with _temporary_home() as home:
        with EmbeddedServer(home):
            pass
        yield home


@pytest.fixture
def home(_used_home: Path) -> Iterator[Path]:
    """A home in which a server has run before, stopped; shared, so a test leaves it sound."""
    yield _used_home
    _stop_leftover(_used_home)


@pytest.fixture
def other_home(_used_home: Path, bare_home: Path) -> Path:
    """A copy of it, of the test's own."""
    subprocess.run(["cp", "-a", (_used_home / "postgres" / "data").resolve(), bare_home / "data"], check=True)
    (bare_home / "postgres").mkdir()
    (bare_home / "data").rename(bare_home / "postgres" / "data")
    return bare_home


@pytest.fixture(scope="session")
def admin(server: EmbeddedServer) -> Iterator[psycopg.Connection]:
    """Connection that makes and drops databases."""
    with psycopg.connect(server.url("postgres"), autocommit=True) as conn:
        conn.execute("ALTER SYSTEM SET fsync = off")  # the tests' data are thrown away; rcll keeps it on
        conn.execute("SELECT pg_reload_conf()")
        yield conn


@pytest.fixture(scope="session")
def make_template(
    server: EmbeddedServer, admin: psycopg.Connection
) -> Callable[[str, Callable[[Database], object]], str]:
    """Return ``make_template(name, setup)``: a database that ``setup`` has filled, made once a session."""
    made: set[str] = set()

    def make(name: str, setup: Callable[[Database], object]) -> str:
        template = f"template_{name}"
        if template not in made:
            _copy_database(admin, EMPTY, template)
            setup(Database(server.url(template), is_embedded=True))
            made.add(template)
        return template

    return make


_numbers = count(1)


@pytest.fixture
def clone(server: EmbeddedServer, admin: psycopg.Connection) -> Iterator[Callable[[str], Database]]:
    """Return ``clone(template)``: a Database on a copy of a template, dropped after the test."""
    made: list[str] = []

    def copy(template: str = EMPTY) -> Database:
        name = f"test_{next(_numbers)}"
        _copy_database(admin, template, name)
        made.append(name)
        return Database(server.url(name), is_embedded=True)

    yield copy
    for name in made:
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def walk(make_template: Callable[..., str], clone: Callable[[str], Database], tmp_path: Path) -> Walk:
    """A migrated Hindsight-like database with two banks of 150 units."""

    def setup(database: Database) -> None:
        fill(database, "hindsight")
        migrated(database)

    database = clone(make_template("walk", setup))
    return Walk(database, migrated(database), tmp_path)


@pytest.fixture
def database_of(make_template: Callable[..., str], clone: Callable[[str], Database]) -> Callable[[str], Database]:
    """Return ``database_of(kind)``: a Database of the test's own, made by databases/<kind>.sql."""

    def make(kind: str) -> Database:
        def setup(database: Database) -> None:
            with database.connect() as conn:
                conn.execute((DATABASES / f"{kind}.sql").read_bytes())

        return clone(make_template(f"kind_{kind}", setup))

    return make


@pytest.fixture(scope="session")
def tenant_of() -> Callable[[Database], Tenant]:
    """Return ``tenant_of(database)``: its only tenant, as the catalog shows it now."""

    def read(database: Database) -> Tenant:
        with database.connect() as conn:
            (tenant,) = read_tenants(conn)
        return tenant

    return read


@pytest.fixture
def role(admin: psycopg.Connection) -> Iterator[str]:
    """A role that may log in and nothing else; ask for it before the databases in which it gets rights."""
    name = f"role_{next(_numbers)}"
    admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    yield name
    admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


@pytest.fixture
def fresh_database(clone: Callable[[str], Database]) -> Database:
    """An empty database of the test's own, with vector and pg_trgm."""
    return clone(EMPTY)


def _copy_database(admin: psycopg.Connection, template: str, name: str) -> None:
    admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))
