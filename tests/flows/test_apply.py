"""A stored plan is applied as it stands, or refused."""

import json

import pytest

from rcll.errors import InputError
from rcll.store.connect import Database
from tests.integration.places import N_UNITS, fill, unit_id


def _fill(database: Database) -> None:
    fill(database, "hindsight")
    with database.connect() as conn:
        conn.execute("UPDATE memory_units SET text = 'The disk of server alder was full, case ' || right(id::text, 3)")


@pytest.fixture
def bank(make_template, clone, monkeypatch, tmp_path):
    """A Hindsight-like database, not migrated, whose texts are all about full disks; settings point at it."""
    database = clone(make_template("apply", _fill))
    monkeypatch.setenv("RCLL_DATABASE_URL", database.url)
    monkeypatch.setenv("RCLL_HOME", str(tmp_path))
    return database


def _rows(database, statement):
    with database.connect() as conn:
        return conn.execute(statement).fetchall()


def _plan(**parameters):
    from flows.reorganize import reorganize

    (summary,) = reorganize(dry_run=True, only="labels", **parameters)
    return summary


def _apply(plan_id):
    from flows.reorganize import apply

    (summary,) = apply(plan_id)
    return summary


def test_plan_is_applied_as_it_stands(bank, tmp_path):
    """A plan of an unmigrated bank is written after migration; units that came or changed since are left out."""
    plan = _plan()
    with bank.connect() as conn:
        conn.execute("UPDATE memory_units SET text = 'edited' WHERE id = %s", [unit_id(0)])
        conn.execute("DELETE FROM memory_units WHERE id = %s", [unit_id(1)])
        conn.execute("INSERT INTO memory_units (bank_id, text) VALUES ('alice', 'The disk of server birch was full.')")
    run = _apply(plan["plan_id"])
    assert run["status"] == "done"
    assert run["migrations"] == plan["pending_migrations"]
    assert run["loaded"]["skipped"] == {"edited": 1, "gone": 1}
    assert run["loaded"]["n_written"] == plan["labels"]["n_to_write"] - 2 == N_UNITS - 2
    assert _rows(bank, "SELECT count(*) FROM memory_units WHERE room = 'infrastructure'") == [(N_UNITS - 2,)]
    (parameters,) = _rows(bank, "SELECT parameters FROM rcll_runs")[0]
    assert parameters["plan"] == plan["plan_id"]
    assert list(tmp_path.glob("storage/plans/*/public/plan.json"))
    with pytest.raises(InputError, match=r"was applied by run .* \(done\)"):
        _apply(plan["plan_id"])


def test_plan_of_another_database_is_refused(bank, clone, make_template, monkeypatch):
    """A clone is another database, even of the same data."""
    plan = _plan()
    other = clone(make_template("apply", _fill))
    monkeypatch.setenv("RCLL_DATABASE_URL", other.url)
    with pytest.raises(InputError, match="was made on another database"):
        _apply(plan["plan_id"])
    assert _rows(other, "SELECT count(*) FROM pg_class WHERE relname = 'rcll_runs'") == [(0,)]


def test_plan_of_other_rules_is_refused(bank, monkeypatch):
    """Options that change labels belong to the rules."""
    plan = _plan()
    monkeypatch.setenv("RCLL_LAYERS", "true")
    with pytest.raises(InputError, match=r"was made with other rules.*give the same --taxonomy and --layers"):
        _apply(plan["plan_id"])


def test_plan_that_is_not_whole_is_refused(bank, tmp_path):
    """A part that was altered, a manifest that is none or missing, an id that is no plan's, or leads elsewhere."""
    plan = _plan()
    folder = tmp_path / "storage" / "plans" / plan["plan_id"] / "public"
    part = next(folder.glob("plan-*.parquet"))
    part.write_bytes(part.read_bytes() + b"x")
    with pytest.raises(InputError, match="has parts that are not those it was made of"):
        _apply(plan["plan_id"])
    (folder / "plan.json").write_text(json.dumps({"plan_id": "x"}))
    with pytest.raises(InputError, match="is not whole"):
        _apply(plan["plan_id"])
    (folder / "plan.json").unlink()
    with pytest.raises(InputError, match="is not whole"):
        _apply(plan["plan_id"])
    for name in ("plan-1", "", "../../etc"):
        with pytest.raises(InputError, match=f"no plan '{name}'.*the last is '{plan['plan_id']}'"):
            _apply(name)


def test_limits_of_the_settings_reach_the_loader(bank, monkeypatch):
    """RCLL_BATCH bounds what one transaction writes."""
    monkeypatch.setenv("RCLL_BATCH", "20")
    assert _apply(_plan()["plan_id"])["loaded"]["n_written"] == N_UNITS
    transactions = "SELECT max(n) FROM (SELECT count(*) AS n FROM rcll_changes GROUP BY changed_at) t"
    assert _rows(bank, transactions)[0][0] <= 20


def test_old_plans_go(bank, tmp_path, monkeypatch):
    """The oldest plans beyond plans_kept are removed when a new one is made."""
    monkeypatch.setenv("RCLL_PLANS_KEPT", "2")
    plans = tmp_path / "storage" / "plans"
    for name in ("plan-20200101-000000-aaaaaa", "plan-20200102-000000-aaaaaa"):
        (plans / name / "public").mkdir(parents=True)
    made = _plan()["plan_id"]
    assert sorted(path.name for path in plans.iterdir()) == ["plan-20200102-000000-aaaaaa", made]


def test_labels_that_may_be_nobodys_are_pointed_out(bank):
    """A run over a fork's labels names the command that makes them rcll's own, and counts layers that are none."""
    from rcll.store.catalog import read_tenants
    from rcll.store.migrate import migrate

    with bank.connect() as conn:
        (tenant,) = read_tenants(conn)
        migrate(bank, tenant)
        conn.execute("UPDATE memory_units SET room = 'misc' WHERE bank_id = 'alice'")
        conn.execute("UPDATE memory_units SET layer = 7 WHERE id = %s", [unit_id(1)])
    plan = _plan()
    layers, hint = plan["hints"]
    assert plan["labels"]["foreign_layers"] == {"7": 1}
    assert "by value: '7' on 1; expected 0 to 3" in layers
    assert hint.startswith("bank 'alice': 150 of 150 units")
    assert "rcll adopt --bank 'alice'" in hint
