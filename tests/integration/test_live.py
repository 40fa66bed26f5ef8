"""The live database from DuckDB: read-only, and nothing else within reach."""

import pytest

from rcll.analyst.duck import ask
from rcll.analyst.live import check_live, open_live
from rcll.errors import InputError
from rcll.store.connect import Database, without_password
from tests.integration.places import fill


@pytest.fixture
def bank(make_template, clone):
    """A Hindsight-like database with two banks."""
    return clone(make_template("cli", lambda database: fill(database, "hindsight")))


def _answer(connection, sql):
    check_live(connection, sql)
    return ask(connection, sql)[1].fetchall()


def test_live_database_is_read(bank):
    """Tables of PostgreSQL answer as pg.<schema>.<table>."""
    with open_live(bank) as connection:
        sql = "SELECT bank_id, count(*) FROM pg.memory_units GROUP BY ALL ORDER BY ALL"
        assert _answer(connection, sql) == [("alice", 150), ("bob", 150)]


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM pg.memory_units",
        "SELECT * FROM postgres_query('pg', 'SELECT pg_read_file(''/etc/passwd'')')",
        "WITH x AS (SELECT * FROM Postgres_Scan('host=example.org', 'public', 'x')) FROM x",
        "SELECT (SELECT count(*) FROM postgres_query('pg', 'SELECT 1'))",
        "SELECT * FROM query('SELECT * FROM postgres_query(''pg'', ''SELECT 1'')')",
        "CALL postgres_execute('pg', 'DELETE FROM memory_units')",
        "SELECT path FROM duckdb_databases()",
        "SELECT * FROM read_text('/etc/hostname')",
        "EXPLAIN ANALYZE DELETE FROM pg.memory_units",
        "SELECT 1; DELETE FROM pg.memory_units",
    ],
)
def test_live_database_is_all_that_is_reached(bank, sql):
    """No write, no text sent as it is, no other server, no file, no address; the bank stays as it was."""
    with open_live(bank) as connection:
        with pytest.raises(InputError):
            _answer(connection, sql)
        assert _answer(connection, "SELECT count(*) FROM pg.memory_units") == [(300,)]


def test_password_is_not_shown(bank):
    """DuckDB shows the address of what is attached to whoever asks; the password is not in it."""
    address, password = without_password("postgresql://me:hunter2@127.0.0.1:9/none")
    assert password == "hunter2"
    assert "hunter2" not in address
    with pytest.raises(InputError, match="cannot be attached") as refused:
        open_live(Database("postgresql://me:hunter2@127.0.0.1:9/none", is_embedded=False)).__enter__()
    assert "hunter2" not in str(refused.value)
