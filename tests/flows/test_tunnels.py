"""Tunnels by the whole walk where inputs are odd: tenants, thousands of banks, copies, vectors that say nothing."""

import json
import math

import pytest

from rcll.store.catalog import read_tenants
from rcll.store.checks import run_checks
from tests.integration.places import _DATABASES, SHARED

N_BANKS = 5_000


@pytest.fixture
def empty(make_template, clone, monkeypatch, tmp_path):
    """A Hindsight-like database without a unit, not migrated; every bank may be linked with every other."""

    def setup(database):
        with database.connect() as conn:
            conn.execute((_DATABASES / "hindsight.sql").read_text(encoding="utf-8"))
            conn.execute("DELETE FROM memory_units")
            conn.execute("DELETE FROM banks")

    database = clone(make_template("empty", setup))
    monkeypatch.setenv("RCLL_DATABASE_URL", database.url)
    monkeypatch.setenv("RCLL_HOME", str(tmp_path))
    monkeypatch.setenv("RCLL_TUNNEL_PAIRS", json.dumps([["*", "*"]]))
    return database


def _walk(**parameters):
    from flows.reorganize import reorganize

    return reorganize(**parameters)


def _fill(database, rows, schema="public"):
    """Units of (bank, text, vector or None)."""
    with database.connect() as conn:
        for bank in sorted({bank for bank, _, _ in rows}):
            conn.execute(f'INSERT INTO "{schema}".banks (bank_id) VALUES (%s)', [bank])
        with conn.cursor() as cursor:
            cursor.executemany(
                f'INSERT INTO "{schema}".memory_units (bank_id, text, embedding) VALUES (%s, %s, %s)', rows
            )


def _known(banks):
    """What each of two banks knows of the shared matters, with vectors that agree."""
    vectors = [str([math.sin((1000 + n) * i) for i in range(384)]) for n in range(len(SHARED))]
    return [
        (bank, text, vector)
        for pair, vector in zip(SHARED, vectors, strict=True)
        for bank, text in zip(banks, pair, strict=True)
    ]


def _rows(database, statement):
    with database.connect() as conn:
        return conn.execute(statement).fetchall()


def _assert_whole(database):
    with database.connect() as conn:
        for tenant in read_tenants(conn):
            assert run_checks(conn, tenant) == {}


def test_two_tenants_never_meet(empty):
    """What two schemas both know is linked inside each, never across, whatever the patterns allow."""
    with empty.connect() as conn:
        conn.execute('CREATE SCHEMA "other team"')
        for table in ("banks", "documents", "memory_units", "invalidated_memory_units", "memory_links"):
            conn.execute(f'CREATE TABLE "other team".{table} (LIKE public.{table} INCLUDING ALL)')
    _fill(empty, [(bank, text, v) for bank, text, v in _known(("alice", "bob")) if bank == "alice"])
    _fill(empty, [(bank, text, v) for bank, text, v in _known(("alice", "bob")) if bank == "bob"], "other team")
    for summary in _walk():
        assert summary["tunnels"]["n_new"] == 0
    _fill(empty, [("carol", text, v) for bank, text, v in _known(("alice", "bob")) if bank == "bob"])
    found = {summary["schema"]: summary["tunnels"]["n_new"] for summary in _walk()}
    assert found["other team"] == 0
    assert found["public"] > len(SHARED) / 2
    ends = _rows(empty, "SELECT source_bank_id, target_bank_id FROM tunnels")
    assert {frozenset(pair) for pair in ends} == {frozenset(("alice", "carol"))}
    assert _rows(empty, 'SELECT count(*) FROM "other team".tunnels') == [(0,)]
    _assert_whole(empty)


def test_five_thousand_banks_of_one_unit(empty):
    """One walk files, links and leases them in a bounded number of transactions; the next writes no row."""
    matter = "The TLS certificate of server host-{0} expires."
    _fill(empty, [(f"bank-{n}", matter.format(n // 2), None) for n in range(N_BANKS)])
    before = _transactions(empty)
    (summary,) = _walk()
    assert summary["loaded"]["n_written"] + summary["loaded"]["n_recorded"] == N_BANKS
    assert summary["tunnels"]["n_new"] == N_BANKS // 2
    assert _transactions(empty) - before < N_BANKS / 5
    assert _rows(empty, "SELECT count(*) FROM rcll_leases WHERE expires_at > clock_timestamp()") == [(0,)]
    written = _rows(empty, "SELECT ctid, xmin FROM tunnels ORDER BY 1")
    (again,) = _walk()
    assert (again["loaded"]["n_written"], again["tunnels"]["n_new"], again["tunnels"]["n_kept"]) == (0, 0, N_BANKS // 2)
    assert _rows(empty, "SELECT ctid, xmin FROM tunnels ORDER BY 1") == written
    _assert_whole(empty)


def _transactions(database):
    with database.connect() as conn:
        conn.execute("SELECT pg_stat_force_next_flush()")
        conn.execute("SELECT pg_stat_clear_snapshot()")
        query = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        row = conn.execute(query).fetchone()
    assert row
    return row[0]


@pytest.mark.parametrize("vector", [None, str([0.0] * 384)], ids=["null", "zero"])
def test_vectors_that_say_nothing(empty, vector):
    """Only copies are linked, as duplicates; nothing fails."""
    copies = [(bank, "Server db-1 ran out of disk space.", vector) for bank in ("alice", "bob")]
    _fill(empty, copies + [(bank, text, vector) for bank, text, _ in _known(("alice", "bob"))])
    (summary,) = _walk()
    assert summary["tunnels"]["n_new"] == 1
    assert _rows(empty, "SELECT relationship FROM tunnels") == [("duplicate",)]


def test_one_bank_and_units_of_general(empty):
    """One bank has nobody to be linked with, and what no rule knew is never linked."""
    _fill(empty, [("alice", text, v) for bank, text, v in _known(("alice", "bob")) if bank == "alice"])
    assert _walk()[0]["tunnels"]["n_new"] == 0
    _fill(empty, [("bob", "Lena likes green tea.", None)])
    with empty.connect() as conn:
        conn.execute("INSERT INTO memory_units (bank_id, text) VALUES ('alice', 'Lena likes green tea.')")
    (summary,) = _walk()
    assert summary["tunnels"]["n_new"] == 0
    assert _rows(empty, "SELECT DISTINCT room FROM memory_units WHERE text LIKE 'Lena%'") == [("general",)]


@pytest.mark.parametrize("names", [("o'brien", 'team/α "x"', "💡" * 60)], ids=["odd-names"])
def test_forty_identical_units_in_each_bank(empty, names):
    """Boilerplate is one tunnel a pair of banks, whatever the banks are called."""
    text = "Server alder was restarted after the weekly update."
    _fill(empty, [(name, text, str([1.0] + [0.0] * 383)) for name in names for _ in range(40)])
    (summary,) = _walk()
    assert summary["tunnels"]["n_new"] == 3
    pairs = _rows(empty, "SELECT source_bank_id, target_bank_id FROM tunnels")
    assert {frozenset(pair) for pair in pairs} == {frozenset((a, b)) for a in names for b in names if a != b}
    _assert_whole(empty)
