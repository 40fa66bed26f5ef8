"""From a legacy bank through extract, plan and load to labels, ledger and undo log, on real PostgreSQL."""

import logging
import threading

import numpy as np
import polars as pl
import pytest

from rcll.store.extract import count_units, extract_embeddings, extract_members, extract_units
from rcll.store.lease import hold_banks
from rcll.store.ledger import clear_explicit, find_unit, list_runs, set_explicit, start_run
from tests.integration.places import N_UNITS, fill, unit_id
from tests.integration.walks import Walk, migrated


def test_labels_are_written_filed_and_logged(walk):
    """Every unit gets its label, a ledger row and an undo row; nothing else of it changes."""
    untouched = "SELECT id, text, tags, updated_at, embedding::text FROM memory_units ORDER BY id"
    before = walk.rows(untouched)
    _, loaded = walk.run()
    assert (loaded.n_written, loaded.n_recorded, loaded.skipped, loaded.notes) == (N_UNITS, 0, {}, ())
    assert walk.rows("SELECT DISTINCT room, hall, layer FROM memory_units") == [("auth", "event", 2)]
    assert walk.rows("SELECT count(*) FROM rcll_labels WHERE room_rule = 'auth-rule'") == [(N_UNITS,)]
    logged = "SELECT DISTINCT old_room, old_layer, room, old_ledger FROM rcll_changes"
    assert walk.rows(logged) == [("general", "2", "auth", None)]
    assert walk.rows(untouched) == before


def test_second_run_finds_nothing(walk):
    """After a run the same plan is empty, and no text is fetched again."""
    walk.run()
    assert walk.plan().is_empty()
    units = pl.read_parquet(walk.folder / "plan-2" / "units-00000.parquet")
    assert units["text"].null_count() == N_UNITS


def test_later_labels_replace_the_ledger_row_and_log_it(walk):
    """The undo log of a second run holds the ledger row that it replaced."""
    first, _ = walk.run("auth", rules="T")
    second, _ = walk.run("api", rules="U")
    logged = "SELECT DISTINCT old_room, room, old_ledger->>'run_id', old_ledger->>'room_rule' FROM rcll_changes"
    assert walk.rows(f"{logged} WHERE run_id = %s", second) == [("auth", "api", first, "auth-rule")]
    ledger = "SELECT DISTINCT room, room_rule, taxonomy_hash, run_id::text FROM rcll_labels"
    assert walk.rows(ledger) == [("api", "api-rule", "U", second)]


def test_same_label_under_other_rules_is_only_recorded(walk):
    """Where the label stays, the ledger alone learns of the new rules; the units are not touched."""
    walk.run(rules="T")
    versions = "SELECT id, xmin::text, xmax::text FROM memory_units ORDER BY id"
    before = walk.rows(versions)
    _, loaded = walk.run(rules="U")
    assert (loaded.n_written, loaded.n_recorded, loaded.hot_share) == (0, N_UNITS, None)
    assert walk.rows(versions) == before
    assert walk.rows("SELECT DISTINCT taxonomy_hash FROM rcll_labels") == [("U",)]


def test_units_that_changed_since_are_skipped_with_a_reason(walk):
    """Deleted, edited and relabelled units, and those that somebody labelled on purpose, are left alone and counted."""
    changes = walk.plan()
    walk.do("DELETE FROM memory_units WHERE id = %s", unit_id(0))
    walk.do("UPDATE memory_units SET text = 'new' WHERE id = %s", unit_id(1))
    walk.do("UPDATE memory_units SET room = 'tax' WHERE id = %s", unit_id(2))
    with walk.database.connect() as conn:
        set_explicit(conn, walk.tenant, [unit_id(3)], room="general")
    _, loaded = walk.apply(changes)
    assert loaded.skipped == {"edited": 1, "gone": 1, "relabelled": 2}
    assert loaded.n_written == N_UNITS - 4
    assert [walk.labels()[unit_id(n)][0] for n in (2, 3)] == ["tax", "general"]
    assert walk.rows(f"SELECT count(*) FROM rcll_labels WHERE unit_id = '{unit_id(0)}'") == [(0,)]


def test_recording_spares_what_somebody_has_set_meanwhile(walk):
    """A label set through rcll between plan and apply keeps its ledger row also where only that would be written."""
    walk.run(rules="T")
    changes = walk.plan(rules="U")
    with walk.database.connect() as conn:
        set_explicit(conn, walk.tenant, [unit_id(0)], room="auth")
    walk.do("DELETE FROM memory_units WHERE id = %s", unit_id(1))
    _, loaded = walk.apply(changes, rules="U")
    assert (loaded.n_recorded, loaded.skipped) == (N_UNITS - 2, {"gone": 1, "relabelled": 1})
    with walk.database.connect() as conn:
        assert find_unit(conn, walk.tenant, unit_id(0)).room_source == "explicit"


def test_locked_rows_are_retried_and_then_counted(walk):
    """A row that somebody holds is written once it is free; the others do not wait for it."""
    changes = walk.plan()
    with walk.database.connect(autocommit=False) as other:
        other.execute("SELECT FROM memory_units WHERE id = %s FOR UPDATE", [unit_id(5)])
        freed = threading.Timer(0.3, other.rollback)
        freed.start()
        _, loaded = walk.apply(changes)
        freed.join()
    assert (loaded.n_written, loaded.skipped) == (N_UNITS, {})


def test_row_held_to_the_end_is_counted(walk):
    """A row that stays locked is skipped as such; the next run writes it."""
    changes = walk.plan()
    with walk.database.connect(autocommit=False) as other:
        other.execute("SELECT FROM memory_units WHERE id = %s FOR UPDATE", [unit_id(5)])
        assert walk.apply(changes)[1].skipped == {"locked": 1}
        other.rollback()
    assert walk.run()[1].n_written == 1


def test_explicit_labels_survive(walk):
    """A room set by raw SQL or through set_explicit stays; hall and layer follow the rules."""
    with walk.database.connect() as conn:
        conn.execute("UPDATE memory_units SET room = 'tax' WHERE id = %s", [unit_id(0)])
        assert set_explicit(conn, walk.tenant, [unit_id(1)], room="general") == [unit_id(1)]
    walk.run()
    with walk.database.connect() as conn:
        found = [find_unit(conn, walk.tenant, unit_id(n)) for n in (0, 1)]
        assert [(u.room, u.room_source, u.hall) for u in found] == [
            ("tax", "explicit", "event"),
            ("general", "explicit", "event"),
        ]
        clear_explicit(conn, walk.tenant, [unit_id(1)])
    assert walk.plan()["unit_id"].to_list() == [unit_id(1)]
    walk.run()
    assert walk.labels()[unit_id(1)][0] == "auth"


def test_dead_run_is_closed_by_the_next(walk):
    """A run without a live lease that is still marked as running was killed: shown as dead, closed by the next."""
    with walk.database.connect() as conn:
        first = start_run(conn, walk.tenant, kind="reorganize", taxonomy_hash="T", parameters={})
        assert [run.status for run in list_runs(conn, walk.tenant)] == ["running"]
        conn.execute("UPDATE rcll_runs SET started_at = now() - interval '1 hour'")
        with hold_banks(walk.database, walk.tenant, ["alice"], first):
            assert [run.status for run in list_runs(conn, walk.tenant)] == ["running"]
        assert [run.status for run in list_runs(conn, walk.tenant)] == ["dead"]
        start_run(conn, walk.tenant, kind="reorganize", taxonomy_hash="T", parameters={})
        states = {run.run_id: run.status for run in list_runs(conn, walk.tenant)}
    assert states.pop(str(first)) == "failed"
    assert set(states.values()) == {"running"}


def test_members_come_with_dates_and_vectors(walk):
    """Dates at infinity are none, embeddings keep their order, a missing one is NaN."""
    with walk.database.connect() as conn:
        conn.execute("UPDATE memory_units SET embedding = NULL WHERE id = %s", [unit_id(1)])
        conn.execute(
            "UPDATE memory_units SET mentioned_at = 'infinity', event_date = '-infinity',"
            " created_at = '2026-01-02' WHERE id = %s",
            [unit_id(2)],
        )
        stored = dict(conn.execute("SELECT id::text, embedding::real[] FROM memory_units").fetchall())
        ids = [unit_id(n) for n in (2, 1, 0)]
        members, vectors = extract_members(conn, walk.tenant, ids)
    assert members["unit_id"].to_list() == sorted(ids)
    by_id = dict(zip(members["unit_id"], vectors, strict=True))
    assert by_id[unit_id(0)].tolist() == stored[unit_id(0)]
    assert pl.Series(by_id[unit_id(1)]).is_nan().all()
    happened = members.filter(pl.col("unit_id") == unit_id(2))["happened_at"].item()
    assert (happened.year, happened.month) == (2026, 1)


def test_vectors_come_in_the_order_of_the_ids(walk, monkeypatch):
    """However many statements and decoding steps it takes, row i belongs to id i; unknown ids are NaN."""
    monkeypatch.setattr("rcll.store.extract.VECTORS_ROWS", 70)
    monkeypatch.setattr("rcll.store.extract.BUFFER_BYTES", 5_000)
    ids = [unit_id(n) for n in (299, *range(0, 299, 2), 1_000, *range(1, 299, 2))]
    with walk.database.connect() as conn:
        stored = dict(conn.execute("SELECT id::text, embedding::real[] FROM memory_units").fetchall())
        vectors = extract_embeddings(conn, walk.tenant, ids)
    assert pl.Series(vectors[ids.index(unit_id(1_000))]).is_nan().all()
    known = [(unit, row) for unit, row in zip(ids, vectors, strict=True) if unit in stored]
    assert len(known) == N_UNITS
    assert all((row == np.float32(stored[unit])).all() for unit, row in known)


def test_bank_filter(walk):
    """Only the named bank is read, whatever its name."""
    with walk.database.connect() as conn:
        conn.execute("UPDATE memory_units SET bank_id = %s WHERE bank_id = 'bob'", ["a/b='c' 🦊"])
        assert count_units(conn, walk.tenant, ["a/b='c' 🦊"]) == {"a/b='c' 🦊": N_UNITS // 2}
    where = {"banks": ["a/b='c' 🦊"], "taxonomy_hash": "T", "folder": walk.folder}
    parts = extract_units(walk.database, walk.tenant, **where)
    assert pl.read_parquet(parts)["bank_id"].unique().to_list() == ["a/b='c' 🦊"]


def test_fork_layers_keep_their_spelling(make_template, clone, tmp_path):
    """A fork's TEXT layers are written as 'L2', NULL becomes a label, and its own tables are left alone."""
    database = clone(make_template("fork_load", lambda d: fill(d, "fork")))
    walk = Walk(database, migrated(database), tmp_path)
    assert (walk.tenant.kind, walk.tenant.closets) == ("fork", "rcll_closets")
    walk.do("UPDATE memory_units SET room = NULL, hall = NULL, layer = NULL")
    walk.do("UPDATE memory_units SET layer = '7' WHERE id = %s", unit_id(0))
    assert walk.run()[1].n_written == N_UNITS
    layers = "SELECT layer, count(*) FROM memory_units GROUP BY 1 ORDER BY 1"
    assert walk.rows(layers) == [("7", 1), ("L2", N_UNITS - 1)]
    assert walk.plan().is_empty()


def test_label_that_does_not_fit_a_narrow_column_is_counted(make_template, clone, tmp_path):
    """A fork's varchar(8) takes 'auth' and not 'infrastructure'; nothing is cut, nobody else is held up."""
    database = clone(make_template("fork_load", lambda d: fill(d, "fork")))
    with database.connect() as conn:
        conn.execute("ALTER TABLE memory_units ALTER COLUMN room TYPE varchar(8)")
    walk = Walk(database, migrated(database), tmp_path)
    changes = walk.plan()
    long = pl.when(pl.col("unit_id") == unit_id(0)).then(pl.lit("infrastructure")).otherwise("room")
    _, loaded = walk.apply(changes.with_columns(room=long))
    assert (loaded.n_written, loaded.skipped) == (N_UNITS - 1, {"too long": 1})


def _guard(walk, body):
    walk.do(
        "CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$BEGIN IF OLD.id IN ('{unit_id(2)}', '{unit_id(7)}') THEN {body} END IF; RETURN NEW; END$$"
    )
    walk.do("CREATE TRIGGER guard BEFORE UPDATE ON memory_units FOR EACH ROW EXECUTE FUNCTION guard()")


@pytest.mark.parametrize(
    "body", ["RAISE EXCEPTION 'kept';", "RETURN NULL;", "NEW.room := 'general';"], ids=["raises", "drops", "changes"]
)
def test_units_that_a_trigger_refuses_are_left_out(walk, body):
    """A trigger of the owner's that raises, drops or changes the update costs only its own units; none is filed."""
    changes = walk.plan()
    _guard(walk, body)
    _, loaded = walk.apply(changes)
    assert (loaded.n_written, loaded.skipped) == (N_UNITS - 2, {"refused": 2})
    for table in ("rcll_labels", "rcll_changes"):
        assert walk.rows(f"SELECT count(*) FROM {table}") == [(N_UNITS - 2,)]
    assert walk.plan()["unit_id"].to_list() == [unit_id(2), unit_id(7)]


def test_units_that_a_constraint_refuses_are_left_out(walk, caplog):
    """So does a CHECK on labels; what the server says is told once."""
    changes = walk.plan()
    walk.do(f"ALTER TABLE memory_units ADD CHECK (room <> 'auth' OR id NOT IN ('{unit_id(2)}', '{unit_id(7)}'))")
    with caplog.at_level(logging.WARNING, logger="rcll.notice"):
        _, loaded = walk.apply(changes)
    assert (loaded.n_written, loaded.skipped) == (N_UNITS - 2, {"refused": 2})
    (record,) = caplog.records
    assert "check constraint" in record.getMessage()
