"""From a legacy bank through extract, plan and load to labels, ledger and undo log, on real PostgreSQL."""

import threading
from uuid import uuid4

import polars as pl
import pytest

from rcll.errors import Busy
from rcll.frames import LABELS, UNITS
from rcll.stages.plan import PlanParams, plan_labels
from rcll.store.catalog import read_tenants
from rcll.store.extract import count_units, extract_members, extract_units
from rcll.store.lease import hold_banks
from rcll.store.ledger import clear_explicit, find_unit, list_runs, set_explicit, start_run
from rcll.store.load import apply_changes, read_changes
from rcll.store.migrate import migrate
from tests.integration.places import N_UNITS, fill, unit_id

PARAMS = PlanParams(taxonomy_hash="T")


@pytest.fixture
def place(make_template, clone):
    """A migrated Hindsight-like database with two banks of 150 units, and its tenant."""

    def setup(database):
        fill(database, "hindsight")
        with database.connect() as conn:
            (tenant,) = read_tenants(conn)
        migrate(database, tenant)

    database = clone(make_template("load", setup))
    with database.connect() as conn:
        (tenant,) = read_tenants(conn)
    return database, tenant


def _plan(place, folder, *, room="auth"):
    """Read everything, propose one room for all, and write the plan."""
    database, tenant = place
    parts = extract_units(database, tenant, banks=None, taxonomy_hash="T", folder=folder)
    units = pl.concat([pl.read_parquet(part) for part in parts]) if parts else pl.DataFrame(schema=UNITS)
    labels = pl.DataFrame(
        [{"unit_id": u, "room": room, "hall": "event", "layer": 2, "room_rule": "r"} for u in units["unit_id"]],
        schema=LABELS,
    )
    plan_labels(units, labels, PARAMS).write_parquet(folder / "plan.parquet")
    return read_changes([folder / "plan.parquet"])


def _apply(place, changes, banks=("alice", "bob")):
    database, tenant = place
    with database.connect() as conn:
        run_id = start_run(conn, tenant, kind="reorganize", taxonomy_hash="T", parameters={})
    with hold_banks(database, tenant, banks, run_id) as lease:
        return apply_changes(database, tenant, changes, lease, taxonomy_hash="T")


def _rows(place, statement):
    with place[0].connect() as conn:
        return conn.execute(statement).fetchall()


def test_labels_are_written_filed_and_logged(place, tmp_path):
    """Every unit gets its label, a ledger row and an undo row; nothing else of it changes."""
    untouched = "SELECT id, text, tags, updated_at, embedding::text FROM memory_units ORDER BY id"
    before = _rows(place, untouched)
    loaded = _apply(place, _plan(place, tmp_path))
    assert (loaded.n_written, loaded.n_recorded, loaded.skipped) == (N_UNITS, 0, {})
    assert _rows(place, "SELECT DISTINCT room, hall, layer FROM memory_units") == [("auth", "event", 2)]
    assert _rows(place, "SELECT count(*) FROM rcll_labels WHERE room_rule = 'r'") == [(N_UNITS,)]
    logged = "SELECT DISTINCT old_room, old_layer, room, old_ledger FROM rcll_changes"
    assert _rows(place, logged) == [("general", "2", "auth", None)]
    assert _rows(place, untouched) == before


def test_second_run_finds_nothing(place, tmp_path):
    """After a run the same plan is empty, and no text is fetched again."""
    _apply(place, _plan(place, tmp_path / "a"))
    assert _plan(place, tmp_path / "b").is_empty()
    units = pl.read_parquet(tmp_path / "b" / "units-00000.parquet")
    assert units["text"].null_count() == N_UNITS


def test_units_that_changed_since_are_skipped_with_a_reason(place, tmp_path):
    """Deleted, edited and relabelled units are left alone and counted by reason."""
    changes = _plan(place, tmp_path)
    with place[0].connect() as conn:
        conn.execute("DELETE FROM memory_units WHERE id = %s", [unit_id(0)])
        conn.execute("UPDATE memory_units SET text = 'new' WHERE id = %s", [unit_id(1)])
        conn.execute("UPDATE memory_units SET room = 'tax' WHERE id = %s", [unit_id(2)])
    loaded = _apply(place, changes)
    assert loaded.skipped == {"edited": 1, "gone": 1, "relabelled": 1}
    assert loaded.n_written == N_UNITS - 3
    assert _rows(place, f"SELECT room FROM memory_units WHERE id = '{unit_id(2)}'") == [("tax",)]
    assert _rows(place, f"SELECT count(*) FROM rcll_labels WHERE unit_id = '{unit_id(0)}'") == [(0,)]


def test_locked_rows_are_retried_and_then_counted(place, tmp_path):
    """A row that somebody holds is written once it is free; the others do not wait for it."""
    changes = _plan(place, tmp_path)
    with place[0].connect(autocommit=False) as other:
        other.execute("SELECT FROM memory_units WHERE id = %s FOR UPDATE", [unit_id(5)])
        freed = threading.Timer(0.3, other.rollback)
        freed.start()
        loaded = _apply(place, changes)
        freed.join()
    assert (loaded.n_written, loaded.skipped) == (N_UNITS, {})


def test_row_held_to_the_end_is_counted(place, tmp_path):
    """A row that stays locked is skipped as such; the next run writes it."""
    changes = _plan(place, tmp_path / "a")
    with place[0].connect(autocommit=False) as other:
        other.execute("SELECT FROM memory_units WHERE id = %s FOR UPDATE", [unit_id(5)])
        assert _apply(place, changes).skipped == {"locked": 1}
        other.rollback()
    assert _apply(place, _plan(place, tmp_path / "b")).n_written == 1


def test_explicit_labels_survive(place, tmp_path):
    """A room set by raw SQL or through set_explicit stays; hall and layer follow the rules."""
    database, tenant = place
    with database.connect() as conn:
        conn.execute("UPDATE memory_units SET room = 'tax' WHERE id = %s", [unit_id(0)])
        assert set_explicit(conn, tenant, [unit_id(1)], room="general") == [unit_id(1)]
    _apply(place, _plan(place, tmp_path / "a"))
    with database.connect() as conn:
        found = [find_unit(conn, tenant, unit_id(n)) for n in (0, 1)]
        assert [(u.room, u.room_source, u.hall) for u in found] == [
            ("tax", "explicit", "event"),
            ("general", "explicit", "event"),
        ]
        clear_explicit(conn, tenant, [unit_id(1)])
    assert _plan(place, tmp_path / "b")["unit_id"].to_list() == [unit_id(1)]
    _apply(place, _plan(place, tmp_path / "c"))
    assert _rows(place, f"SELECT room FROM memory_units WHERE id = '{unit_id(1)}'") == [("auth",)]


def test_second_writer_is_told_who_holds_the_bank(place):
    """One writer per bank: the second is refused at once, with holder and time; another bank is free."""
    database, tenant = place
    refused = pytest.raises(Busy, match=r"bank 'alice' is in use by .* pid \d+ .*since 20")
    with hold_banks(database, tenant, ["alice"], uuid4()):
        with refused, hold_banks(database, tenant, ["alice", "bob"], uuid4()):
            pass
        with hold_banks(database, tenant, ["bob"], uuid4()):
            pass
    with hold_banks(database, tenant, ["alice"], uuid4()):
        pass


def test_holder_whose_lease_was_taken_writes_nothing(place, tmp_path):
    """A holder that wakes after its lease expired and was taken by another is stopped by the fence."""
    database, tenant = place
    changes = _plan(place, tmp_path)
    with hold_banks(database, tenant, ["alice", "bob"], uuid4()) as lost:
        with database.connect() as conn:
            conn.execute("UPDATE rcll_leases SET expires_at = clock_timestamp()")
        refused = pytest.raises(Busy, match="no longer ours")
        with hold_banks(database, tenant, ["alice", "bob"], uuid4()), refused:
            apply_changes(database, tenant, changes, lost, taxonomy_hash="T")
    assert _rows(place, "SELECT count(*) FROM rcll_labels") == [(0,)]


def test_killed_run_is_marked_failed_by_the_next(place):
    """A run without a living lease does not say 'running' for ever."""
    database, tenant = place
    with database.connect() as conn:
        first = start_run(conn, tenant, kind="reorganize", taxonomy_hash="T", parameters={})
        conn.execute("UPDATE rcll_runs SET started_at = now() - interval '1 hour'")
        start_run(conn, tenant, kind="reorganize", taxonomy_hash="T", parameters={})
        states = {run.run_id: run.status for run in list_runs(conn, tenant)}
    assert states.pop(str(first)) == "failed"
    assert set(states.values()) == {"running"}


def test_members_come_with_dates_and_vectors(place):
    """Dates at infinity are none, embeddings keep their order, a missing one is NaN."""
    database, tenant = place
    with database.connect() as conn:
        conn.execute("UPDATE memory_units SET embedding = NULL WHERE id = %s", [unit_id(1)])
        conn.execute(
            "UPDATE memory_units SET mentioned_at = 'infinity', event_date = '-infinity',"
            " created_at = '2026-01-02' WHERE id = %s",
            [unit_id(2)],
        )
        stored = dict(conn.execute("SELECT id::text, embedding::real[] FROM memory_units").fetchall())
        ids = [unit_id(n) for n in (2, 1, 0)]
        members, vectors = extract_members(conn, tenant, ids)
    assert members["unit_id"].to_list() == sorted(ids)
    by_id = dict(zip(members["unit_id"], vectors, strict=True))
    assert by_id[unit_id(0)].tolist() == stored[unit_id(0)]
    assert pl.Series(by_id[unit_id(1)]).is_nan().all()
    happened = members.filter(pl.col("unit_id") == unit_id(2))["happened_at"].item()
    assert (happened.year, happened.month) == (2026, 1)


def test_bank_filter(place, tmp_path):
    """Only the named bank is read, whatever its name."""
    database, tenant = place
    with database.connect() as conn:
        conn.execute("UPDATE memory_units SET bank_id = %s WHERE bank_id = 'bob'", ["a/b='c' 🦊"])
        assert count_units(conn, tenant, ["a/b='c' 🦊"]) == {"a/b='c' 🦊": N_UNITS // 2}
    parts = extract_units(database, tenant, banks=["a/b='c' 🦊"], taxonomy_hash="T", folder=tmp_path)
    assert pl.read_parquet(parts)["bank_id"].unique().to_list() == ["a/b='c' 🦊"]


def test_fork_layers_keep_their_spelling(make_template, clone, tmp_path):
    """A fork's TEXT layers are written as 'L2', NULL becomes a label, and its own tables are left alone."""
    database = clone(make_template("fork_load", lambda d: fill(d, "fork")))
    with database.connect() as conn:
        (tenant,) = read_tenants(conn)
        migrate(database, tenant)
        (tenant,) = read_tenants(conn)
        assert (tenant.kind, tenant.closets) == ("fork", "rcll_closets")
        conn.execute("UPDATE memory_units SET room = NULL, hall = NULL, layer = NULL")
        conn.execute("UPDATE memory_units SET layer = '7' WHERE id = %s", [unit_id(0)])
    place = (database, tenant)
    assert _apply(place, _plan(place, tmp_path / "a")).n_written == N_UNITS
    layers = "SELECT layer, count(*) FROM memory_units GROUP BY 1 ORDER BY 1"
    assert _rows(place, layers) == [("7", 1), ("L2", N_UNITS - 1)]
    assert _plan(place, tmp_path / "b").is_empty()
