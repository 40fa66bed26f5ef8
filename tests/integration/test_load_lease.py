"""One writer per bank: leases with expiry, fenced inside every write transaction."""

import threading
import time
from uuid import uuid4

import pytest

from rcll.errors import Busy
from rcll.store.lease import hold_banks
from rcll.store.ledger import start_run
from rcll.store.load import LoadLimits, apply_changes
from tests.integration.places import N_UNITS
from tests.integration.walks import BANKS


def _hold(walk, banks, run_id=None):
    return hold_banks(walk.database, walk.tenant, banks, run_id or uuid4())


def test_second_writer_is_told_who_holds_the_bank(walk):
    """The second is refused at once, with holder and time; another bank is free."""
    refused = pytest.raises(Busy, match=r"bank 'alice' is in use by .* pid \d+ .*since 20")
    with _hold(walk, ["alice"]):
        with refused, _hold(walk, ["alice", "bob"]):
            pass
        with _hold(walk, ["bob"]):
            pass
    with _hold(walk, ["alice"]):
        pass


def test_holder_whose_lease_was_taken_writes_nothing(walk):
    """A holder that wakes after its lease expired and was taken by another is stopped by the fence."""
    changes = walk.plan()
    late = pytest.raises(Busy, match="no longer ours")
    with _hold(walk, BANKS) as first:
        walk.do("UPDATE rcll_leases SET expires_at = now()")
        with _hold(walk, BANKS) as second:
            assert all(second.tokens[bank] > first.tokens[bank] for bank in BANKS)
            with late:
                apply_changes(walk.database, walk.tenant, changes, first, taxonomy_hash="T")
    assert walk.rows("SELECT count(*) FROM rcll_changes") == [(0,)]


def test_expired_lease_is_not_ours_even_if_nobody_took_it(walk):
    """Somebody may be about to take it: a holder without a lease stops."""
    changes = walk.plan()
    with _hold(walk, BANKS) as lease:
        walk.do("UPDATE rcll_leases SET expires_at = now()")
        with pytest.raises(Busy, match="no longer ours"):
            apply_changes(walk.database, walk.tenant, changes, lease, taxonomy_hash="T")


def test_banks_without_a_lease_are_not_written(walk):
    """Changes of a bank that the run does not hold are refused whole."""
    changes = walk.plan()
    with _hold(walk, ["alice"]) as lease, pytest.raises(Busy, match="bank 'bob' is no longer ours"):
        apply_changes(walk.database, walk.tenant, changes, lease, taxonomy_hash="T")
    assert walk.rows("SELECT count(*) FROM rcll_changes WHERE bank_id = 'bob'") == [(0,)]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("DELETE FROM rcll_leases", "no longer ours"),
        ("UPDATE rcll_leases SET fencing = fencing + 1", "no longer ours"),
        ("UPDATE rcll_leases SET run_id = NULL", "no longer ours"),
        ("UPDATE rcll_leases SET expires_at = '-infinity'", "no longer ours"),
    ],
)
def test_lease_row_edited_by_hand_stops_its_holder(walk, change, found):
    """Whatever is done to the row, a lease that is not found as it was is lost."""
    changes = walk.plan()
    with _hold(walk, BANKS) as lease:
        walk.do(change)
        with pytest.raises(Busy, match=found):
            apply_changes(walk.database, walk.tenant, changes, lease, taxonomy_hash="T")


@pytest.mark.parametrize("times", ["'infinity'", "'2999-01-01'"])
def test_lease_that_never_ends_is_reported(walk, times):
    """A hand may have written any time; the message shows it."""
    with _hold(walk, ["alice"]):
        pass
    walk.do(f"UPDATE rcll_leases SET expires_at = {times}, acquired_at = {times}, holder = 'a hand', run_id = NULL")
    shown = times.strip("'")
    with (
        pytest.raises(Busy, match=f"in use by a hand .*since {shown}.*until its lease ends at {shown}"),
        _hold(walk, BANKS),
    ):
        pass


def test_stopped_write_transaction_does_not_hold_up_the_next_run(walk):
    """The row of a lease that a stopped holder's transaction has locked is waited for, and not for ever."""
    with walk.database.connect() as stopped, stopped.transaction():
        with _hold(walk, ["alice"]):
            pass
        stopped.execute("SELECT set_config('idle_in_transaction_session_timeout', '2s', true)")
        stopped.execute("SELECT FROM rcll_leases FOR SHARE")
        start = time.monotonic()
        with _hold(walk, ["alice"]):
            assert 1 < time.monotonic() - start < 8
        with pytest.raises(Exception, match="idle-in-transaction"):
            stopped.execute("SELECT 1")
        stopped.close()


def test_heartbeat_keeps_a_long_load_alive(walk, monkeypatch):
    """A load of several lease times goes through, as its lease is extended meanwhile."""
    monkeypatch.setattr("rcll.store.lease.LEASE_SECONDS", 1.5)
    monkeypatch.setattr("rcll.store.lease.HEARTBEAT_SECONDS", 0.4)
    _, loaded = walk.apply(walk.plan(), limits=LoadLimits(rows_per_second=80))
    assert loaded.n_written == N_UNITS


def test_two_runs_at_once(walk):
    """Of two runs over the same banks one does it all and the other is refused."""
    changes = walk.plan()
    outcomes = []

    def run():
        try:
            outcomes.append(walk.apply(changes)[1].n_written)
        except Busy:
            outcomes.append("busy")

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert N_UNITS in outcomes
    assert set(outcomes) <= {N_UNITS, "busy", 0}
    assert walk.rows("SELECT count(*), count(DISTINCT unit_id) FROM rcll_changes") == [(N_UNITS, N_UNITS)]


def test_run_is_recorded_before_it_holds(walk):
    """start_run needs no lease, so that a refused run is on record too."""
    with _hold(walk, BANKS), walk.database.connect() as conn:
        assert start_run(conn, walk.tenant, kind="reorganize", taxonomy_hash="T", parameters={})
