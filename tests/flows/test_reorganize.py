"""The flow on real PostgreSQL: what it writes, what it leaves, and that a second run writes nothing."""

import json

import pytest

from rcll.errors import Busy, InputError
from rcll.settings import load_settings
from rcll.store.catalog import read_tenants
from rcll.store.checks import run_checks
from rcll.walk.asked import create_closet
from rcll.walk.place import Place
from tests.doubles import openai_double as double_
from tests.integration.places import N_UNITS, SHARED, fill_matters, unit_id


@pytest.fixture
def bank(make_template, clone, monkeypatch, tmp_path):
    """A Hindsight-like database with matters in common, not migrated, and settings that point at it."""
    database = clone(make_template("flows", fill_matters))
    monkeypatch.setenv("RCLL_DATABASE_URL", database.url)
    monkeypatch.setenv("RCLL_HOME", str(tmp_path))
    monkeypatch.setenv("RCLL_CLOSET_THRESHOLD", "100")
    monkeypatch.setenv("RCLL_TUNNEL_PAIRS", json.dumps([["alice", "bob"]]))
    return database


def _rows(database, statement):
    with database.connect() as conn:
        return conn.execute(statement).fetchall()


def _walk(**parameters):
    from flows.reorganize import reorganize

    (summary,) = reorganize(**parameters)
    return summary


def test_first_run_files_condenses_links_and_the_second_writes_nothing(bank, tmp_path):
    """One run migrates and does it all; the next finds the same and writes nothing, no text stays on disk."""
    first = _walk()
    assert first["status"] == "done"
    assert first["migrations"]
    assert first["loaded"]["n_written"] + first["loaded"]["n_recorded"] == N_UNITS
    assert _rows(bank, "SELECT count(*) > 290 FROM memory_units WHERE room = 'infrastructure'") == [(True,)]
    assert first["closets"]["n_new"] > 0
    assert first["tunnels"]["n_new"] > 0
    counts = "SELECT (SELECT count(*) FROM closets), (SELECT count(*) FROM tunnels), (SELECT count(*) FROM rcll_labels)"
    stored = _rows(bank, counts)
    second = _walk()
    assert second["migrations"] == []
    assert (second["loaded"]["n_written"], second["loaded"]["n_recorded"]) == (0, 0)
    for stage in ("closets", "tunnels"):
        assert (second[stage]["n_new"], second[stage]["n_gone"]) == (0, 0)
        assert second[stage]["n_kept"] == first[stage]["n_new"]
    assert _rows(bank, counts) == stored
    assert list(tmp_path.glob("storage/runs/*")) == []


def test_every_check_is_empty_after_a_run(bank):
    """No rule of sql/checks is broken by a run, and what somebody asked for and is missing comes back with it."""
    from rcll.store.catalog import read_tenants
    from rcll.store.explicit import record_tunnel
    from rcll.store.migrate import migrate

    with bank.connect() as conn:
        migrate(bank, read_tenants(conn)[0])
        (tenant,) = read_tenants(conn)
        asked = record_tunnel(conn, tenant, unit_id(20), unit_id(21), "depends_on")
    assert _walk()["restored"] == {"n_tunnels": 1, "n_closets": 0, "n_waiting": 0}
    with bank.connect() as conn:
        assert run_checks(conn, tenant) == {}
    assert _rows(bank, "SELECT id::text FROM tunnels WHERE method = 'explicit'") == [(asked,)]


def test_plan_is_the_same_walk_and_writes_nothing(bank, tmp_path):
    """A plan migrates nothing and changes nothing; the run then does what it promised."""
    before = _rows(bank, "SELECT relname, relfilenode FROM pg_class WHERE relkind IN ('r', 'i') ORDER BY 1")
    plan = _walk(dry_run=True)
    assert plan["status"] == "planned"
    assert plan["pending_migrations"]
    assert _rows(bank, "SELECT relname, relfilenode FROM pg_class WHERE relkind IN ('r', 'i') ORDER BY 1") == before
    assert list(tmp_path.glob(f"storage/plans/{plan['plan_id']}/public/plan-*.parquet"))
    assert not list(tmp_path.glob("storage/plans/**/units-*.parquet"))
    run = _walk()
    assert run["loaded"]["n_written"] == plan["labels"]["n_to_write"]
    assert run["loaded"]["n_recorded"] == plan["labels"]["n_to_record"]
    assert run["closets"]["n_new"] == plan["closets"]["n_new"]
    assert run["tunnels"]["n_new"] == plan["tunnels"]["n_new"]


def test_one_bank_and_one_stage(bank):
    """--bank and --only limit what is written."""
    summary = _walk(banks=["alice"], only="labels")
    assert summary["labels"]["n_units"] == N_UNITS // 2
    assert "closets" not in summary
    assert _rows(bank, "SELECT DISTINCT bank_id FROM rcll_labels") == [("alice",)]
    assert _rows(bank, "SELECT count(*) FROM tunnels") == [(0,)]


def test_tunnels_of_one_bank_leave_the_others(bank):
    """A run over one bank keeps its tunnels to banks that it does not cover."""
    n_new = _walk()["tunnels"]["n_new"]
    again = _walk(banks=["alice"])
    assert again["tunnels"] == again["tunnels"] | {"n_new": 0, "n_gone": 0, "n_kept": n_new}


def test_incremental_run_ends_equal_to_a_full_one(bank, tmp_path):
    """After an edit, a deletion and a new unit, tunnels are those of a run from nothing; then nothing is written."""
    import shutil

    state = "SELECT id, score, evidence, source_bank_id, target_bank_id FROM tunnels ORDER BY id"
    _walk()
    before = _rows(bank, state)
    with bank.connect() as conn:
        conn.execute("UPDATE memory_units SET text = 'The tea is green.' WHERE id = %s", [unit_id(0)])
        conn.execute("DELETE FROM memory_units WHERE id = %s", [unit_id(3)])
        conn.execute(
            "INSERT INTO memory_units (bank_id, text, embedding) SELECT 'bob', %s, embedding"
            " FROM memory_units WHERE id = %s",
            [SHARED[3][1].replace("On 3 June", "In June"), unit_id(6)],
        )
    run = _walk(only="labels")
    summary = _walk(only="tunnels")["tunnels"]
    incremental = _rows(bank, state)
    assert run["loaded"]["n_written"] > 0
    assert {row[0] for row in incremental} != {row[0] for row in before}
    with bank.connect() as conn:
        conn.execute("DELETE FROM tunnels")
    shutil.rmtree(tmp_path / "storage" / "links")
    _walk(only="tunnels")
    assert _rows(bank, state) == incremental
    again = _walk(only="tunnels")["tunnels"]
    assert (again["n_new"], again["n_updated"], again["n_gone"]) == (0, 0, 0)
    assert again["n_kept"] == summary["n_new"] + summary["n_updated"] + summary["n_kept"]


def test_tunnels_go_when_no_pair_is_allowed_any_more(bank, monkeypatch):
    """What rcll found by itself disappears with the permission."""
    n_new = _walk()["tunnels"]["n_new"]
    monkeypatch.setenv("RCLL_TUNNEL_PAIRS", "[]")
    assert _walk()["tunnels"]["n_gone"] == n_new


def test_edited_source_leaves_its_closet(bank):
    """A closet whose source was edited is stale at once; the next run makes it fresh without that source."""
    from rcll.store.catalog import read_tenants
    from rcll.store.closets import list_closets

    _walk()
    with bank.connect() as conn:
        (tenant,) = read_tenants(conn)
        closet = list_closets(conn, tenant)[0]
        assert closet.status == "fresh"
        conn.execute("UPDATE memory_units SET text = 'The tea is green.' WHERE id = %s", [closet.unit_ids[0]])
        stale = [each for each in list_closets(conn, tenant) if each.status == "stale"]
        assert [each.closet_id for each in stale] == [closet.closet_id]
        summary = _walk()
        assert summary["closets"]["n_updated"] + summary["closets"]["n_gone"] == 1
        after = list_closets(conn, tenant)
        assert {each.status for each in after} == {"fresh"}
        assert all(closet.unit_ids[0] not in each.unit_ids for each in after)


def test_plan_previews_what_the_model_is_asked(bank, openai_double, monkeypatch):
    """A plan counts calls for new closets and renewals, and says what the budget leaves out; the run then does so."""
    monkeypatch.setenv("RCLL_SUMMARY_MODEL", double_.MODEL)
    monkeypatch.setenv("RCLL_SUMMARY_BASE_URL", openai_double.base_url)
    monkeypatch.setenv("RCLL_SUMMARY_API_KEY", double_.KEY)
    monkeypatch.setenv("RCLL_PRICES", json.dumps({double_.MODEL: [1, 1]}))
    plan = _walk(dry_run=True)["closets"]
    assert (plan["n_calls"], plan["n_left_out"], openai_double.n_requests) == (plan["n_new"], 0, 0)
    assert plan["cost"] == pytest.approx(plan["n_tokens"] / 1e6)
    assert _walk()["closets"]["n_calls"] == plan["n_new"] == openai_double.n_requests
    with bank.connect() as conn:
        (tenant,) = read_tenants(conn)
    asked = [unit_id(n) for n in range(0, 6, 2)]
    create_closet(Place(load_settings(), bank, tenant), "alice", asked)
    with bank.connect() as conn:
        for unit in (asked[0], unit_id(100)):
            conn.execute("UPDATE memory_units SET text = text || ' It was cold.' WHERE id = %s", [unit])
    n_before = openai_double.n_requests
    plan = _walk(dry_run=True, only="closets")["closets"]
    assert (plan["n_renewed"], plan["n_updated"], plan["n_calls"], plan["n_left_out"]) == (1, 1, 2, 0)
    monkeypatch.setenv("RCLL_MAX_CALLS", "1")
    assert _walk(dry_run=True, only="closets")["closets"]["n_left_out"] == 1
    monkeypatch.setenv("RCLL_MAX_TOKENS", str(plan["n_tokens"] - 1))
    monkeypatch.setenv("RCLL_MAX_CALLS", "9")
    assert _walk(dry_run=True, only="closets")["closets"]["n_left_out"] == 1
    monkeypatch.delenv("RCLL_MAX_TOKENS")
    run = _walk(only="closets")["closets"]
    assert (run["n_renewed"], run["n_updated"], run["n_calls"]) == (1, 1, 2)
    assert openai_double.n_requests == n_before + 2


def test_unknown_bank_is_named_with_a_hint(bank):
    """A bank that does not exist changes nothing and brings the nearest name."""
    with pytest.raises(InputError, match=r"bank 'alic' does not exist.*did you mean 'alice'"):
        _walk(banks=["alic"])
    assert _rows(bank, "SELECT count(*) FROM pg_class WHERE relname = 'rcll_runs'") == [(0,)]


def test_busy_bank_is_refused(bank):
    """While another run holds a bank, a second one says who and writes nothing."""
    from uuid import uuid4

    from rcll.store.catalog import read_tenants
    from rcll.store.lease import hold_banks
    from rcll.store.migrate import migrate

    with bank.connect() as conn:
        (tenant,) = read_tenants(conn)
        migrate(bank, tenant)
        (tenant,) = read_tenants(conn)
    with hold_banks(bank, tenant, ["alice"], uuid4()), pytest.raises(Busy, match="'alice' is in use by"):
        _walk()
    assert _rows(bank, "SELECT count(*) FROM rcll_labels") == [(0,)]
    assert _rows(bank, "SELECT status FROM rcll_runs") == []


def test_explicit_label_survives_the_whole_walk(bank):
    """A room that somebody set by hand is kept, recorded and counted."""
    _walk(only="labels")
    with bank.connect() as conn:
        conn.execute("UPDATE memory_units SET room = 'tax' WHERE id = %s", [unit_id(4)])
    summary = _walk(only="labels")
    assert summary["labels"]["n_explicit"] == 1
    assert _rows(bank, f"SELECT room FROM memory_units WHERE id = '{unit_id(4)}'") == [("tax",)]
