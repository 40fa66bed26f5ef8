"""Opening the database that the settings name, and the one line that is said when that fails."""

import pickle
import socket
from pathlib import Path

import psycopg
import pytest

from rcll.errors import DatabaseError, InputError, RcllError, Unreachable
from rcll.settings import Settings
from rcll.store.connect import Database, check_versions, open_database


def open_url(url: str) -> str:
    """Open the database at a URL and return the name that it says it has."""
    with open_database(Settings(database_url=url)) as database, database.connect() as conn:
        return conn.execute("SELECT current_database()").fetchone()[0]


@pytest.fixture(scope="session")
def with_password(server) -> str:
    """Address of the test server for a role that needs its password, 'p@ss/w:rd', as %s."""
    with psycopg.connect(server.url(), autocommit=True) as conn:
        file = Path(conn.execute("SHOW hba_file").fetchone()[0])
        file.write_text(f"local all guest scram-sha-256\n{file.read_text()}")
        conn.execute("SELECT pg_reload_conf()")
        conn.execute("CREATE ROLE guest LOGIN PASSWORD 'p@ss/w:rd'")
        return f"postgresql://guest:%s@/rcll?host={conn.info.host}"


# -- what works --------------------------------------------------------------------------------------------


def test_embedded_by_default(home):
    """Expect the embedded server under RCLL_HOME without a URL, and to be told so."""
    with open_database(Settings(home=home)) as database, database.connect() as conn:
        assert database.is_embedded
        assert conn.execute("SELECT current_database()").fetchone() == ("rcll",)
    with pytest.raises(Unreachable, match="run the command again"):
        database.connect()


def test_url(fresh_database):
    """Expect a checked database at a URL, stray blanks round it forgiven."""
    with open_database(Settings(database_url=f" {fresh_database.url}\n")) as database:
        assert database == Database(fresh_database.url, is_embedded=False)


def test_connections_suit_a_pooler(fresh_database):
    """Expect autocommit, no prepared statements, UTF-8 and our name."""
    with fresh_database.connect() as conn:
        assert conn.autocommit
        for _ in range(10):
            conn.execute("SELECT %s", [1])
        assert conn.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
        assert conn.info.encoding == "utf-8"
        assert conn.info.parameter_status("application_name") == "rcll"


def test_arguments_go_over_the_url_over_ours(fresh_database):
    """Expect the user's choice in the URL to stand, unless the caller says otherwise."""
    named = Database(f"{fresh_database.url}&application_name=mine", is_embedded=False)
    with named.connect() as one, named.connect(application_name="yours", autocommit=False) as two:
        assert one.info.parameter_status("application_name") == "mine"
        assert two.info.parameter_status("application_name") == "yours"
        assert not two.autocommit


def test_password(with_password):
    """Expect a password with special characters to work percent-encoded, and never to be printed."""
    assert open_url(with_password % "p%40ss%2Fw%3Ard") == "rcll"
    database = Database(with_password % "p%40ss%2Fw%3Ard", is_embedded=False)
    assert "ss" not in repr(database)


def test_templates_are_cloned(make_template, clone):
    """Expect clones that start from what the setup made, apart from each other."""

    def setup(database):
        with database.connect() as conn:
            conn.execute("CREATE TABLE t AS SELECT 1 AS x")

    first, second = clone(make_template("t", setup)), clone(make_template("t", setup))
    with first.connect() as one, second.connect() as two:
        one.execute("DELETE FROM t")
        assert two.execute("SELECT x FROM t").fetchall() == [(1,)]


# -- what does not -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("mysql://u:hunter2@h/d", "begins with 'mysql://'"),
        ("postgresql+asyncpg://u:hunter2@h/d", "begins with 'postgresql+asyncpg://'"),
        ("host=h password=hunter2", "is not a URL"),
        ("hunter2", "is not a URL"),
        ("postgresql://u:hun%ter2@h/d", "cannot be read"),
        ("postgresql://u@h/d?hunter2", "cannot be read"),
        ("postgresql://u:x@hunter2@h/d", "has an '@', '/' or port"),
        ("postgresql://u:hunter2/x@h/d", "has an '@', '/' or port"),
        ("postgresql://u:5432/hunter2@h/d", "has an '@', '/' or port"),
        ("postgresql://u@h:hunter2/d", "has an '@', '/' or port"),
    ],
)
def test_unreadable_address(url, found):
    """Expect what is wrong, what is expected and where to set it; no part of a password."""
    with pytest.raises(InputError, match="RCLL_DATABASE_URL") as failure:
        open_url(url)
    assert found in str(failure.value)
    assert "hunter2" not in str(failure.value)


def closed_port() -> int:
    """Give a port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_unreachable():
    """Expect host, port and reason in one line for a host that refuses, one that is unknown, a wrong socket."""
    port = closed_port()
    for address, found in [
        (f"127.0.0.1:{port}/d", rf"database 'd' at 127.0.0.1:{port}: .*refused.*; start the server"),
        ("no-such-host.invalid/d", "at no-such-host.invalid:5432: .*; correct the host"),
        ("/d?host=/no/such/folder", "at /no/such/folder:5432: .*No such file"),
    ]:
        with pytest.raises(Unreachable, match=found) as failure:
            open_url(f"postgresql://u:hunter2@{address}")
        assert "hunter2" not in str(failure.value)
        assert "\n" not in str(failure.value)


def test_silent_host():
    """Expect the URL's own time limit to hold against a host that accepts and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/d?connect_timeout=2"
        with pytest.raises(Unreachable, match="timeout"):
            open_url(url)


def test_wrong_password(with_password):
    """Expect to be sent to the user and password, without seeing either password."""
    with pytest.raises(Unreachable, match=r"password authentication failed.*; correct user and password") as failure:
        open_url(with_password % "wrong")
    assert "wrong" not in str(failure.value)
    assert "p@ss" not in str(failure.value)


def test_missing_database_and_role(server, fresh_database):
    """Expect the name that does not exist, and what to do."""
    with pytest.raises(Unreachable, match=r"database 'no such' .*does not exist; create the database"):
        open_url(server.url("no such"))
    with pytest.raises(Unreachable, match='role "nobody_here" does not exist; correct the user'):
        open_url(fresh_database.url.replace("rcll@", "nobody_here@"))


def test_no_pgvector(fresh_database):
    """Expect the statement that installs it, in the database at hand."""
    with fresh_database.connect() as conn:
        conn.execute("DROP EXTENSION vector")
    with pytest.raises(
        DatabaseError, match=r"not installed in database 'test_\d+' .*offers 0.*CREATE EXTENSION vector"
    ):
        open_url(fresh_database.url)


def test_old_pgvector(fresh_database):
    """Expect found and expected version, and the statement that updates it."""
    with fresh_database.connect() as conn:
        conn.execute("UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'")
    with pytest.raises(DatabaseError, match=r"has pgvector 0\.7\.4 .*expected 0\.8 or newer.*ALTER EXTENSION"):
        open_url(fresh_database.url)


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ((140022, "0.8.0", "0.8.0"), r"PostgreSQL 14\.22; expected 15"),
        ((150000, None, None), "offers none.*install its package on the server, then run CREATE EXTENSION vector"),
        ((180006, "0.5.1", "0.8.6"), r"pgvector 0\.5\.1 \(the server offers 0\.8\.6\)"),
    ],
)
def test_versions(facts, found):
    """Expect versions that are not tested to be refused by name."""
    with pytest.raises(DatabaseError, match=found):
        check_versions("d", *facts)


@pytest.mark.parametrize("facts", [(150000, "0.8.0", "0.8.0"), (190001, "0.10.0", None), (180006, "1.0", "1.0")])
def test_good_versions(facts):
    """Expect the oldest that are promised, and newer ones by number, not by letter."""
    check_versions("d", *facts)


def test_errors_cross_processes():
    """Expect an error of the store to survive pickling, as between workers."""
    with pytest.raises(RcllError) as failure:
        open_url("postgresql://127.0.0.1:1/d")
    again = pickle.loads(pickle.dumps(failure.value))
    assert type(again) is Unreachable
    assert str(again) == str(failure.value)
