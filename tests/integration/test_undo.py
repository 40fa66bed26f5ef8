"""Every run can be taken back: labels, holds, closets and tunnels, and what somebody has changed since stays."""

import threading
from uuid import uuid4

import pytest

from rcll.errors import Busy, InputError
from rcll.store.checks import run_checks
from rcll.store.lease import hold_banks
from rcll.store.ledger import list_runs, set_explicit, start_run
from rcll.store.undo import find_run
from rcll.walk.undo import undo_run
from tests.integration.places import N_UNITS, fill, unit_id
from tests.integration.walks import Walk, migrated


def _checks(walk):
    with walk.database.connect() as conn:
        return run_checks(conn, walk.tenant)


def test_undo_gives_back_what_was_and_holds_it(walk):
    """All labels are as before, the run is marked, and the next run leaves the units alone."""
    before = walk.labels()
    run_id, _ = walk.run()
    undone = undo_run(walk.place, run_id)
    assert (undone.n_restored, undone.n_held, undone.skipped, undone.status) == (N_UNITS, N_UNITS, {}, "done")
    assert walk.labels() == before
    assert walk.rows("SELECT status FROM rcll_runs WHERE run_id = %s", run_id) == [("undone",)]
    assert walk.plan().is_empty()
    assert _checks(walk) == {}


def test_hold_ends_with_text_or_rules(walk):
    """An edited unit is filed again by the next run, and all of them under other rules."""
    run_id, _ = walk.run()
    undo_run(walk.place, run_id)
    walk.do("UPDATE memory_units SET text = 'edited' WHERE id = %s", unit_id(3))
    assert walk.plan()["unit_id"].to_list() == [unit_id(3)]
    assert walk.plan(rules="U").height == N_UNITS


def test_release_ends_the_hold(walk):
    """--release on an undone run frees its units; on a run that was not undone it gives back without a hold."""
    run_id, _ = walk.run()
    undo_run(walk.place, run_id)
    released = undo_run(walk.place, run_id, release=True)
    assert (released.n_released, released.n_restored) == (N_UNITS, 0)
    again, loaded = walk.run()
    assert loaded.n_written == N_UNITS
    undone = undo_run(walk.place, again, release=True)
    assert (undone.n_restored, undone.n_held) == (N_UNITS, 0)
    assert walk.plan().height == N_UNITS


def test_what_somebody_changed_since_stays(walk):
    """Deleted, edited, relabelled by SQL and confirmed by rcll label: each is left alone and counted."""
    run_id, _ = walk.run()
    walk.do("DELETE FROM memory_units WHERE id = %s", unit_id(0))
    walk.do("UPDATE memory_units SET text = 'edited' WHERE id = %s", unit_id(1))
    walk.do("UPDATE memory_units SET room = 'tax', hall = 'fact' WHERE id = %s", unit_id(2))
    with walk.database.connect() as conn:
        set_explicit(conn, walk.tenant, [unit_id(3)], room="auth", hall="event", layer=2)
        set_explicit(conn, walk.tenant, [unit_id(4)], room="auth")
    undone = undo_run(walk.place, run_id)
    assert undone.skipped == {"edited": 1, "gone": 1, "relabelled": 2}
    labels = walk.labels()
    assert labels[unit_id(1)][0] == "auth"
    assert labels[unit_id(2)][0] == "tax"
    assert labels[unit_id(3)] == ("auth", "event", "2")
    assert labels[unit_id(4)] == ("auth", "fact", "2")
    assert labels[unit_id(5)] == ("general", "fact", "2")


def test_runs_are_taken_back_one_by_one(walk):
    """Of two runs the older gives nothing back where the newer wrote; newest first, both can be undone."""
    before = walk.labels()
    first, _ = walk.run("auth", rules="T")
    second, _ = walk.run("api", rules="U")
    assert undo_run(walk.place, first).skipped == {"relabelled": N_UNITS}
    assert set(walk.labels().values()) == {("api", "event", "2")}
    undo_run(walk.place, second)
    assert set(walk.labels().values()) == {("auth", "event", "2")}
    assert undo_run(walk.place, first).n_restored == N_UNITS
    assert walk.labels() == before


def test_undo_that_was_cut_off_is_finished_by_the_next(walk):
    """Rows that were locked all the while make an undo partial; said again, it finishes."""
    before = walk.labels()
    run_id, _ = walk.run()
    with walk.database.connect(autocommit=False) as other:
        other.execute("SELECT FROM memory_units WHERE id = %s FOR UPDATE", [unit_id(5)])
        undone = undo_run(walk.place, run_id)
        other.rollback()
    assert (undone.status, undone.skipped, undone.n_restored) == ("partial", {"locked": 1}, N_UNITS - 1)
    assert undo_run(walk.place, run_id).n_restored == 1
    assert walk.labels() == before


def test_fork_gets_its_own_spelling_back(make_template, clone, tmp_path):
    """NULL, 'l1' and '7' are what they were, not what we would write."""
    database = clone(make_template("fork_undo", lambda d: fill(d, "fork")))
    walk = Walk(database, migrated(database), tmp_path)
    walk.do("UPDATE memory_units SET room = NULL, hall = NULL, layer = NULL")
    walk.do("UPDATE memory_units SET layer = 'l2' WHERE id = %s", unit_id(1))
    walk.do("UPDATE memory_units SET layer = '7' WHERE id = %s", unit_id(2))
    before = walk.labels()
    run_id, _ = walk.run()
    assert walk.labels()[unit_id(0)] == ("auth", "event", "L2")
    undo_run(walk.place, run_id)
    assert walk.labels() == before
    assert walk.plan().is_empty()


def test_closets_and_tunnels_of_the_run_go(walk):
    """Those that the run made are dropped; explicit ones and those of other runs stay."""
    run_id, _ = walk.run()
    other = str(uuid4())
    closet = (
        "INSERT INTO closets (id, bank_id, room, hall, summary, source_hash, run_id)"
        " VALUES (gen_random_uuid(), 'alice', 'auth', 'event', 'x', %s, %s)"
    )
    tunnel = (
        "INSERT INTO tunnels (id, source_unit_id, target_unit_id, source_bank_id, target_bank_id, relationship,"
        " method, run_id) VALUES (gen_random_uuid(), %s, %s, 'alice', 'bob', 'same_concept', %s, %s)"
    )
    walk.do(closet, "a", run_id)
    walk.do(closet, "b", other)
    walk.do(tunnel, unit_id(0), unit_id(1), "auto", run_id)
    walk.do(tunnel, unit_id(2), unit_id(3), "auto", other)
    walk.do(tunnel, unit_id(4), unit_id(5), "explicit", run_id)
    undone = undo_run(walk.place, run_id)
    assert (undone.n_closets, undone.n_tunnels) == (1, 1)
    assert walk.rows("SELECT source_hash FROM closets") == [("b",)]
    assert walk.rows("SELECT count(*) FROM tunnels") == [(2,)]


def test_runs_that_cannot_be_undone(walk):
    """Unknown, undone before, an undo itself, no run id: one line that says what to do."""
    run_id, _ = walk.run()
    with walk.database.connect() as conn, pytest.raises(InputError, match="is no run id; expected a uuid"):
        find_run(conn, walk.tenant, "yesterday")
    with pytest.raises(InputError, match="knows no run"):
        undo_run(walk.place, str(uuid4()))
    undone = undo_run(walk.place, run_id)
    with pytest.raises(InputError, match="is undone already; say --release"):
        undo_run(walk.place, run_id)
    with pytest.raises(InputError, match=f"it took run {run_id} back; say rcll undo {run_id} --release"):
        undo_run(walk.place, undone.run_id)


def test_busy_bank_is_not_undone(walk):
    """While another run holds the bank nothing is given back, and what never began is no failed run."""
    run_id, _ = walk.run()
    with hold_banks(walk.database, walk.tenant, ["bob"], uuid4()), pytest.raises(Busy, match="'bob' is in use"):
        undo_run(walk.place, run_id)
    assert set(walk.labels().values()) == {("auth", "event", "2")}
    with walk.database.connect() as conn:
        assert [run.status for run in list_runs(conn, walk.tenant)] == ["done"]


def test_killed_run_can_be_undone(walk):
    """What a run wrote before it was killed is given back like that of any other."""
    with walk.database.connect() as conn:
        run_id = start_run(conn, walk.tenant, kind="reorganize", taxonomy_hash="T", parameters={})
    from rcll.store.load import apply_changes

    before = walk.labels()
    with hold_banks(walk.database, walk.tenant, ["alice", "bob"], run_id) as lease:
        apply_changes(walk.database, walk.tenant, walk.plan().head(40), lease, taxonomy_hash="T")
    assert undo_run(walk.place, str(run_id)).n_restored == 40
    assert walk.labels() == before


def test_explicit_beside_an_undo(walk):
    """Somebody who labels while an undo runs is not overwritten."""
    run_id, _ = walk.run()

    def label():
        with walk.database.connect() as conn:
            for number in range(0, N_UNITS, 3):
                set_explicit(conn, walk.tenant, [unit_id(number)], room="hr")

    person = threading.Thread(target=label)
    person.start()
    undo_run(walk.place, run_id)
    person.join()
    assert {walk.labels()[unit_id(number)][0] for number in range(0, N_UNITS, 3)} == {"hr"}
