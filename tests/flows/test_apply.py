"""A stored plan is applied as it stands, or refused."""

import json
import shutil
from dataclasses import replace

import pytest

from rcll.errors import InputError
from rcll.settings import load_settings
from rcll.store.connect import Database
from rcll.walk.place import open_places
from rcll.walk.plans import find_plans, new_plan_id, store_plan
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


def _stored(home, *, schema="public"):
    """Seal an empty plan as rcll plan does; returns its id."""
    with open_places() as places:
        (place,) = places
        place = replace(place, tenant=replace(place.tenant, schema=schema))
        plan_id = new_plan_id()
        assert store_plan(place, plan_id, banks=None, only="labels").folder.is_relative_to(home)
    return plan_id


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


@pytest.mark.parametrize(
    "change",
    [{"banks": 5}, {"banks": [3]}, {"only": "all"}, {"plan_id": 7}, {"plan_id": "plan-1"}, {"fingerprint": []}],
    ids=str,
)
def test_manifest_that_was_altered_is_refused(bank, tmp_path, change):
    """Whatever a hand wrote into a manifest is one line, before anything is migrated."""
    plan_id = _stored(tmp_path)
    (manifest,) = (tmp_path / "storage" / "plans").glob("*/*/plan.json")
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | change))
    with pytest.raises(InputError, match=r"is not whole|is not its own"):
        find_plans(load_settings(), plan_id)


def test_plan_that_was_moved_is_refused(bank, tmp_path):
    """A copy under another name, or another schema's, could be applied twice or write nothing: it is refused."""
    plan_id = _stored(tmp_path)
    plans = tmp_path / "storage" / "plans"
    shutil.copytree(plans / plan_id, plans / "plan-copy")
    (plans / plan_id / "public").rename(plans / plan_id / "other")
    for name in (plan_id, "plan-copy"):
        with pytest.raises(InputError, match="lies in a folder that is not its own"):
            find_plans(load_settings(), name)


def test_schema_leads_nowhere_and_old_plans_do_not_cost_the_new(bank, tmp_path, monkeypatch):
    """Parts of a schema called like a path lie under the plan; a plan is kept though a later clock made others."""
    monkeypatch.setenv("RCLL_PLANS_KEPT", "1")
    late = tmp_path / "storage" / "plans" / "plan-20991201-000000-aaaaaa" / "public"
    late.mkdir(parents=True)
    schema = "a/../../../../b"
    plan_id = _stored(tmp_path, schema=schema)
    (plan,) = find_plans(load_settings(), plan_id)
    assert plan.fingerprint.schema == schema
    assert plan.folder.parent == tmp_path / "storage" / "plans" / plan_id
    assert not late.exists()


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


def test_every_run_guards_the_quality_of_its_labels(bank, monkeypatch, tmp_path):
    """A run warns of one room that swallows all, then of labels that change; limits silence it; runs keep it."""
    from flows.reorganize import reorganize

    own = tmp_path / "own.toml"
    monkeypatch.setenv("RCLL_TAXONOMY", str(own))

    def run(room: str) -> dict:
        own.write_text(f"rules = [ {{ id = 'r', room = '{room}', pattern = 'disk', hits = ['a disk'] }} ]")
        (summary,) = reorganize(only="labels")
        return summary["labels"]["quality"]

    first = run("storage")
    assert (first["general"], first["largest_room"], first["largest_share"], first["changed"]) == (
        0,
        "storage",
        1,
        None,
    )
    assert first["warnings"] == [
        "100% of the units are in room 'storage'; its rules may be too wide (limit 60%)",
        "100% of the units are in a language without rules (limit 5%)",
    ]
    second = run("drives")
    assert second["changed"] == 1
    assert "100% of the units known before change their room or hall (limit 20%)" in second["warnings"]
    assert _rows(bank, "SELECT DISTINCT room FROM memory_units") == [("drives",)]  # no unit bears the room that is gone
    assert run("drives")["changed"] == 0
    for limit in ("largest_room", "changed", "unsupported"):
        monkeypatch.setenv(f"RCLL_QUALITY_{limit.upper()}", "1")
    assert run("disks")["warnings"] == []
    kept = _rows(bank, "SELECT summary -> 'labels' -> 'quality' ->> 'changed' FROM rcll_runs ORDER BY started_at")
    assert [value for (value,) in kept] == [None, "1.0", "0.0", "1.0"]
