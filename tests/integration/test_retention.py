"""rcll forgets of its own what is old, and nothing that could still be wanted."""

from uuid import UUID

import pytest

from rcll.errors import InputError
from rcll.store.retention import expire_changes, expire_labels
from rcll.walk.undo import undo_run
from tests.integration.places import N_UNITS, unit_id

_AGED = "now() - interval '100 days'"


def _expire_labels(walk):
    """As many runs with as many ids as it takes to see all labels."""
    with walk.database.connect() as conn:
        return sum(expire_labels(conn, walk.tenant, UUID(int=(n << 124) + 7), days=90) for n in range(16))


def _gone(walk):
    return {found for (found,) in walk.rows("SELECT unit_id::text FROM rcll_labels WHERE gone_at IS NOT NULL")}


def _n_labels(walk):
    return walk.rows("SELECT count(*) FROM rcll_labels")[0][0]


def test_old_runs_are_forgotten_and_say_so(walk):
    """The undo log is cut by age, whole runs at a time; a run beyond it is refused with the reason."""
    old, _ = walk.run("auth", rules="T")
    long, _ = walk.run("api", rules="U")
    new, _ = walk.run("auth", rules="V")
    walk.do(f"UPDATE rcll_runs SET started_at = {_AGED}, finished_at = {_AGED} WHERE run_id = %s", old)
    walk.do(f"UPDATE rcll_runs SET started_at = {_AGED} WHERE run_id = %s", long)
    walk.do(f"UPDATE rcll_changes SET changed_at = {_AGED} WHERE run_id IN (%s, %s)", old, long)
    with walk.database.connect() as conn:
        assert expire_changes(conn, walk.tenant, days=90) == N_UNITS
        left = conn.execute("SELECT run_id::text, count(*) FROM rcll_changes GROUP BY 1").fetchall()
    assert dict(left) == {long: N_UNITS, new: N_UNITS}
    with pytest.raises(InputError, match=r"wrote 300 labels, and what they replaced is forgotten.*90 days"):
        undo_run(walk.place, old)
    assert undo_run(walk.place, new).n_restored == N_UNITS


def test_labels_of_units_that_are_gone_are_noted_and_go_later(walk):
    """A missing unit's label stays for as long as an undo reaches back; that of an archived one stays."""
    walk.run()
    deleted, archived = unit_id(5), unit_id(6)
    walk.do("DELETE FROM memory_units WHERE id = %s", deleted)
    walk.do(
        "INSERT INTO invalidated_memory_units (id, bank_id, text)"
        " SELECT id, bank_id, text FROM memory_units WHERE id = %s",
        archived,
    )
    walk.do("DELETE FROM memory_units WHERE id = %s", archived)
    assert _expire_labels(walk) == 0
    assert _gone(walk) == {deleted}
    assert _expire_labels(walk) == 0
    walk.do(f"UPDATE rcll_labels SET gone_at = {_AGED} WHERE gone_at IS NOT NULL")
    assert _expire_labels(walk) == 1
    assert _n_labels(walk) == N_UNITS - 1


def test_unit_that_came_back_is_gone_no_more(walk):
    """A restore brings a unit back: its label is kept, however long it was missing."""
    walk.run()
    walk.do(f"UPDATE rcll_labels SET gone_at = {_AGED} WHERE unit_id = %s", unit_id(5))
    assert _expire_labels(walk) == 0
    assert (_gone(walk), _n_labels(walk)) == (set(), N_UNITS)


def test_every_run_looks_through_a_share(walk):
    """A run looks through one sixteenth of the labels; the ids of runs are random, so none is left out for long."""
    gone = [str(UUID(int=((n << 124) + 0xFFFF))) for n in range(16)]
    walk.do("INSERT INTO rcll_labels (unit_id, bank_id) SELECT unnest(%s::uuid[]), 'alice'", gone)
    with walk.database.connect() as conn:
        expire_labels(conn, walk.tenant, UUID(int=(0xA << 124) + 7), days=90)
    assert _gone(walk) == {gone[0xA]}
    _expire_labels(walk)
    assert _gone(walk) == set(gone)
