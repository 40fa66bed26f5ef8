"""The service over real sockets. Most tests share one server and one database, and have a bank of their own."""

import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

import httpx
import pytest
import uvicorn

from rcll.service.app import make_app
from rcll.settings import Settings
from rcll.store.catalog import read_tenants
from rcll.store.connect import Database
from rcll.store.migrate import create_base, migrate
from rcll.walk.place import Place
from tests.integration.conftest import admin, clone, database_of, make_template, server

__all__ = ["admin", "clone", "database_of", "make_template", "server"]  # pytest finds the fixtures by these names

_banks = count(1)


def places_of(database: Database, home: Path) -> list[Place]:
    """Every tenant of a database, migrated."""
    settings = Settings(home=home)
    with database.connect() as conn:
        for tenant in read_tenants(conn):
            migrate(database, tenant)
        return [Place(settings, database, tenant) for tenant in read_tenants(conn)]


@contextmanager
def serving(places: list[Place], *, rate: str | None = None) -> Generator[httpx.Client]:
    """A client of a server on a port of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    app = make_app(places, rate=rate)
    served = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, access_log=False, ws="none"))
    thread = threading.Thread(target=served.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not served.started:
        assert thread.is_alive(), "the server ended"
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.02)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            yield client
    finally:
        served.should_exit = True
        thread.join(30)


@pytest.fixture(scope="session")
def own_template(make_template) -> str:
    """Base tables of rcll's own, migrated, empty."""

    def setup(database: Database) -> None:
        create_base(database)
        with database.connect() as conn:
            (tenant,) = read_tenants(conn)
        migrate(database, tenant)

    return make_template("service_own", setup)


@pytest.fixture(scope="session")
def own_database(own_template, admin, server) -> Database:
    """The database that tests share."""
    admin.execute(f"CREATE DATABASE service_shared TEMPLATE {own_template}")
    return Database(server.url("service_shared"), is_embedded=True)


@pytest.fixture(scope="session")
def client(own_database, tmp_path_factory) -> Iterator[httpx.Client]:
    """A client of the server that tests share; it has no keys."""
    with serving(places_of(own_database, tmp_path_factory.mktemp("home"))) as shared:
        yield shared


@pytest.fixture
def bank() -> str:
    """Name of a bank of the test's own."""
    return f"bank-{next(_banks)}"


@pytest.fixture
def serve(tmp_path) -> Iterator[Callable[..., httpx.Client]]:
    """Return ``serve(database, rate=None)``: a client of a server of the test's own."""
    with ExitStack() as stack:
        yield lambda database, **asked: stack.enter_context(serving(places_of(database, tmp_path), **asked))
