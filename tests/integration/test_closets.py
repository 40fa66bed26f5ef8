"""Closets on a real database: upkeep, archived sources, closets that somebody asks for or drops."""

import polars as pl
import pytest

from rcll.errors import Busy, InputError
from rcll.store.lease import hold_banks
from rcll.store.ledger import finish_run, set_explicit, start_run
from rcll.store.load import apply_changes
from rcll.walk.asked import create_closet, drop_closet, refresh_closets, show_closet
from rcll.walk.closets import condense_room
from rcll.walk.making import Spent
from rcll.walk.undo import undo_run
from tests.integration.closet_walks import (
    MATTER,
    checks,
    closets,
    condense,
    layers,
    note_again_and_again,
    place,
    state,
)
from tests.integration.places import unit_id
from tests.integration.walks import Walk, migrated


@pytest.fixture
def walk(make_template, clone, tmp_path):
    """Alice notes one matter again and again."""
    database = clone(make_template("closets", lambda fresh: note_again_and_again(fresh, tmp_path)))
    return Walk(database, migrated(database), tmp_path)


def test_second_run_writes_nothing(walk):
    """The matter becomes one closet; a second run, also with archived sources, writes no row at all."""
    _, found = condense(walk)
    assert (found.n_new, found.failures) == (1, ())
    assert sorted(closets(walk)[0].unit_ids) == sorted(MATTER)
    before = state(walk)
    _, again = condense(walk)
    assert (again.n_kept, again.n_new, again.n_updated, again.n_gone) == (1, 0, 0, 0)
    assert state(walk) == before
    condense(walk, archive_sources=True)
    before = state(walk)
    _, archived = condense(walk, archive_sources=True)
    assert archived.n_archived == 0
    assert state(walk) == before


def test_archived_sources_rest_in_layer_3_and_come_back_with_undo(walk):
    """All but the most central member move; the ledger says why; undo gives the layers back and drops the closet."""
    run_id, found = condense(walk, archive_sources=True)
    (closet,) = closets(walk)
    assert found.n_archived == len(MATTER) - 1
    archived = {unit: row for unit, row in layers(walk).items() if row == (3, "archived")}
    assert set(archived) == set(MATTER) - {closet.unit_ids[0]}
    assert checks(walk) == {}
    undone = undo_run(place(walk), run_id)
    assert (undone.n_restored, undone.n_closets) == (len(MATTER) - 1, 1)
    assert set(layers(walk).values()) == {(2, "rule")}
    assert checks(walk) == {}
    _, again = condense(walk, archive_sources=True)
    assert (again.n_new, again.n_archived) == (1, 0)  # an undo holds the units


def test_run_that_files_and_archives_is_undone_wholly(walk):
    """A unit that one run filed and archived gets back what it was before the run."""
    changes = walk.plan("deployment", rules="U")
    with walk.database.connect() as conn:
        run_id = start_run(conn, walk.tenant, kind="reorganize", taxonomy_hash="U", parameters={})
    planned = changes.filter(pl.col("bank_id") == "alice").select("unit_id", "hall")
    with hold_banks(walk.database, walk.tenant, ["alice", "bob"], run_id) as lease:
        apply_changes(walk.database, walk.tenant, changes, lease, taxonomy_hash="U")
        condense_room(place(walk, archive_sources=True), "alice", "deployment", planned, lease=lease, spent=Spent())
    with walk.database.connect() as conn:
        finish_run(conn, walk.tenant, run_id, status="done", summary={})
    assert (3, "archived") in layers(walk).values()
    undo_run(place(walk), str(run_id))
    assert set(layers(walk).values()) == {(2, "rule")}
    assert walk.rows("SELECT DISTINCT room FROM memory_units") == [("auth",)]
    assert checks(walk) == {}


def test_stale_closet_gives_its_sources_back(walk):
    """A closet that loses its matter is dropped, and no unit stays behind in the archive layer."""
    condense(walk, archive_sources=True)
    (closet,) = closets(walk)
    for unit in MATTER[:3]:
        walk.do("UPDATE memory_units SET text = md5(id::text) || ' ' || md5('x' || id::text) WHERE id = %s", unit)
    assert [each.status for each in closets(walk)] == ["stale"]
    condense(walk, archive_sources=True)
    assert closet.closet_id not in {each.closet_id for each in closets(walk)}
    assert set(layers(walk).values()) == {(2, "rule")}
    assert checks(walk).keys() <= {"label_differs_from_ledger"}


def test_source_that_leaves_comes_back_alone(walk):
    """An edited source leaves its closet and the archive layer; the rest stays archived."""
    condense(walk, archive_sources=True)
    edited = closets(walk)[0].unit_ids[-1]
    walk.do("UPDATE memory_units SET text = 'The tea is green.' WHERE id = %s", edited)
    _, found = condense(walk, archive_sources=True)
    assert found.n_updated == 1
    (closet,) = closets(walk)
    assert edited not in closet.unit_ids
    assert {unit for unit, row in layers(walk).items() if row == (3, "archived")} == set(closet.unit_ids[1:])
    assert layers(walk)[edited] == (2, "rule")


def test_layer_that_somebody_set_is_sacred(walk):
    """An explicit layer is neither archived nor given back."""
    with walk.database.connect() as conn:
        set_explicit(conn, walk.tenant, MATTER[:2], layer=1)
    condense(walk, archive_sources=True)
    assert [layers(walk)[unit] for unit in MATTER[:2]] == [(1, "explicit")] * 2
    archived = next(unit for unit, row in layers(walk).items() if row == (3, "archived"))
    with walk.database.connect() as conn:
        set_explicit(conn, walk.tenant, [archived], layer=0)
    drop_closet(place(walk), closets(walk)[0].closet_id)
    assert layers(walk)[archived] == (0, "explicit")


def test_archived_without_a_closet_is_given_back(walk):
    """Closets that went with a restore leave archived units behind; the next run gives them their layer back."""
    condense(walk, archive_sources=True)
    walk.do("TRUNCATE closets CASCADE")
    assert "archived_without_closet" in checks(walk)
    condense(walk)
    assert set(layers(walk).values()) == {(2, "rule")}


def test_room_is_written_whole_or_not_at_all(walk, monkeypatch):
    """Killed while a room's closets are written, nothing of the room is there, and a rerun equals a first run."""
    for batch in range(3):  # three more matters
        for k in range(4):
            text = f"Printer {batch} of floor {batch} jams whenever tray {batch} holds recycled paper, note {k}."
            walk.do("UPDATE memory_units SET text = %s WHERE id = %s", text, unit_id(20 * batch + 2 * k))
    import rcll.store.closets as store

    whole = store._mark

    def die(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "_mark", die)
    with pytest.raises(KeyboardInterrupt):
        condense(walk)
    assert closets(walk) == []
    monkeypatch.setattr(store, "_mark", whole)
    walk.do("DELETE FROM rcll_leases")
    _, found = condense(walk)
    assert found.n_new == len(closets(walk)) > 1


@pytest.mark.parametrize("step", ["claim_sources", "write_labels", "note_archived"])
def test_archiving_that_is_cut_short_is_finished_by_the_next_run(walk, monkeypatch, step):
    """Ended between two transactions of archiving, a rerun has the end of an undisturbed run, and undo still works."""
    from rcll.walk import archive

    whole = getattr(archive, step)

    def die_after(*arguments, **options):
        whole(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(archive, step, die_after)
    with pytest.raises(KeyboardInterrupt):
        condense(walk, archive_sources=True)
    monkeypatch.undo()
    walk.do("DELETE FROM rcll_leases")
    last_run, _ = condense(walk, archive_sources=True)
    (closet,) = closets(walk)
    archived = {unit for unit, row in layers(walk).items() if row == (3, "archived")}
    assert archived == set(closet.unit_ids[1:])
    assert checks(walk) == {}
    before = state(walk)
    condense(walk, archive_sources=True)
    assert state(walk) == before
    (first_run,) = walk.rows("SELECT run_id::text FROM rcll_runs WHERE status = 'running'")[0]
    for run_id in (last_run, first_run):
        undo_run(place(walk), run_id)
    assert closets(walk) == []
    assert set(layers(walk).values()) == {(2, "rule")}
    assert checks(walk) == {}


def test_asked_closet_is_kept_and_comes_back(walk):
    """Somebody's closet takes units of its choice, is one closet when asked for twice, and no run regroups it."""
    mine = [MATTER[0], MATTER[1], unit_id(0)]
    closet = create_closet(place(walk), "alice", mine, hall="warning")
    assert (closet.room, closet.hall, closet.status, closet.is_explicit) == ("auth", "warning", "fresh", True)
    assert create_closet(place(walk), "alice", mine, hall="warning").closet_id == closet.closet_id
    _, found = condense(walk)
    assert found.n_new == 1  # of what is left of the matter
    assert len(closets(walk)) == 2
    walk.do("UPDATE memory_units SET text = text || ' It has changed.' WHERE id = %s", mine[0])
    assert show_closet(place(walk), closet.closet_id).status == "stale"
    condense(walk)
    again = show_closet(place(walk), closet.closet_id)
    assert (again.status, sorted(again.unit_ids)) == ("fresh", sorted(mine))
    walk.do("DELETE FROM memory_units WHERE id = %s", mine[1])
    condense(walk)
    assert show_closet(place(walk), closet.closet_id).status == "stale"


def test_asked_closet_takes_over_the_automatic_one(walk):
    """Asking for the units of an automatic closet makes that closet somebody's own, in its place."""
    condense(walk)
    (closet,) = closets(walk)
    asked = create_closet(place(walk), "alice", closet.unit_ids)
    assert (asked.closet_id, asked.is_explicit) == (closet.closet_id, True)
    assert len(closets(walk)) == 1


def test_dropped_closet_stays_away_until_its_units_change(walk):
    """A closet that somebody drops is not made again by the next run; asked for, it is."""
    condense(walk)
    (closet,) = closets(walk)
    drop_closet(place(walk), closet.closet_id)
    condense(walk)
    assert closets(walk) == []
    assert create_closet(place(walk), "alice", closet.unit_ids).status == "fresh"
    drop_closet(place(walk), closets(walk)[0].closet_id)
    walk.do("UPDATE memory_units SET text = text || ' Again.' WHERE id = ANY(%s::uuid[])", MATTER)
    _, found = condense(walk)
    assert found.n_new == 1


def test_refresh_writes_what_is_stale(walk):
    """Refresh summarises stale closets from what their sources say now, and drops those with too few left."""
    condense(walk)
    (closet,) = closets(walk)
    assert refresh_closets(place(walk)).n_written == 0
    walk.do("UPDATE memory_units SET text = 'The tape robot of hazel is new.' WHERE id = %s", MATTER[0])
    renewed = refresh_closets(place(walk), banks=["alice"])
    assert (renewed.n_written, renewed.n_dropped, renewed.failures) == (1, 0, ())
    assert show_closet(place(walk), closet.closet_id).status == "fresh"
    walk.do("DELETE FROM memory_units WHERE id = ANY(%s::uuid[])", MATTER[:3])
    assert refresh_closets(place(walk)).n_dropped == 1
    assert closets(walk) == []


@pytest.mark.parametrize(
    ("bank", "units", "room", "message"),
    [
        ("alice", ["nonsense"], None, r"'nonsense' is no unit id"),
        ("alice", [], None, r"a closet of 0 units; expected 1 to 500"),
        ("alice", [unit_id(1)], None, r"bank 'alice' has no unit"),
        ("nobody", [unit_id(0)], None, r"bank 'nobody' has no unit"),
        ("alice", [unit_id(0)], "x" * 65, r"has 65 characters; expected 1 to 64"),
        ("alice", [unit_id(0)], " ", r"expected 1 to 64"),
    ],
)
def test_wrong_wishes_are_refused(walk, bank, units, room, message):
    """A wrong unit, bank or label is one line, and nothing is written."""
    before = state(walk)
    with pytest.raises(InputError, match=message):
        create_closet(place(walk), bank, units, room=room)
    assert state(walk) == before


def test_blank_units_make_no_closet(walk):
    """Units without words cannot be summarised."""
    walk.do("UPDATE memory_units SET text = '  ' WHERE id = %s", unit_id(0))
    with pytest.raises(InputError, match="without a text"):
        create_closet(place(walk), "alice", [unit_id(0)])


def test_unknown_closet_is_named(walk):
    """Show, drop and refresh say which closet there is not."""
    for act in (show_closet, drop_closet):
        with pytest.raises(InputError, match="has no closet"):
            act(place(walk), unit_id(9999))
    with pytest.raises(InputError, match="has no closet"):
        refresh_closets(place(walk), closet_ids=[unit_id(9999)])


def test_held_bank_is_busy(walk):
    """While a run holds the bank, a wish waits for another day and leaves nothing behind."""
    with walk.database.connect() as conn:
        run_id = start_run(conn, walk.tenant, kind="reorganize", taxonomy_hash="T", parameters={})
    with hold_banks(walk.database, walk.tenant, ["alice"], run_id), pytest.raises(Busy):
        create_closet(place(walk), "alice", MATTER)
    assert closets(walk) == []


def test_halls_are_kept_apart_by_setting(walk):
    """With by_hall a closet holds one hall only."""
    walk.do("UPDATE memory_units SET hall = 'warning' WHERE id = ANY(%s::uuid[])", MATTER[:2])
    _, found = condense(walk, by_hall=True)
    assert found.n_new == 1
    assert sorted(closets(walk)[0].unit_ids) == sorted(MATTER[2:])
