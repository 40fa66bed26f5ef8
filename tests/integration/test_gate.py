"""What keeps a writer waiting on a real server: a time of day, a slow answer, a standby that is behind."""

import logging
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Thread
from uuid import uuid4

import psycopg
import pytest
from psycopg import conninfo, pq

from rcll.errors import Stopped
from rcll.pauses import PauseWindow
from rcll.stages.throttle import PressureLimits
from rcll.store.control import Gate, control_runs, open_gate
from rcll.store.ledger import start_run
from tests.integration.servers import wait_until
from tests.integration.walks import migrated

CALM = PressureLimits(latency=30.0, lag=10**12)
MEGABYTE = 1_000_000


@pytest.fixture
def gate_of(database_of):
    """Return ``gate_of(windows=…, limits=…)``: the gate of a running backfill."""
    database = database_of("hindsight")
    tenant, run_id = migrated(database), uuid4()
    with database.connect() as conn:
        start_run(conn, tenant, kind="backfill", taxonomy_hash="T", parameters={}, run_id=run_id)

    def make(windows=(), limits=CALM):
        return open_gate(database, tenant, run_id, windows=windows, limits=limits)

    return make


class _UntilThirdLook:
    """A window by a clock of its own: it is over at the third look."""

    def __init__(self) -> None:
        self.moments: list[datetime] = []

    def contains(self, moment: datetime) -> bool:
        self.moments.append(moment)
        return len(self.moments) < 3


def test_writer_waits_until_the_window_is_over(gate_of, caplog):
    """It waits through the looks that lie inside, says why and when it goes on, and asks the database for the time."""
    window = _UntilThirdLook()
    with caplog.at_level(logging.WARNING, "rcll.notice"), gate_of(windows=[window]) as gate:
        gate()
        assert gate.seconds == {"pause window": 2.0}
        (now,) = gate.conn.execute("SELECT clock_timestamp()").fetchone()
    assert now - timedelta(minutes=5) < window.moments[0] < window.moments[-1] < now
    assert caplog.messages == ["the run waits: pause window", "the run goes on"]


def test_window_around_now_holds_and_a_stop_ends_it(gate_of):
    """Inside a real window nothing passes; a stop that somebody asks for ends the wait."""
    now = datetime.now(UTC)
    around = f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=1):%H:%M} UTC"
    with gate_of(windows=[PauseWindow.parse(around)]) as gate, gate_of() as other:

        def stop() -> None:
            wait_until(lambda: gate.seconds)
            control_runs(other.conn, other.tenant, "stop", None)

        with _beside(stop), pytest.raises(Stopped):
            gate()
        assert set(gate.seconds) == {"pause window"}


@contextmanager
def _beside(work: Callable[[], None]) -> Iterator[None]:
    thread = Thread(target=work)
    thread.start()
    yield
    thread.join()


def _look(gate: Gate) -> float:
    """Pass the gate with a look, whenever the last one was; seconds that were waited in it for back-off."""
    before = gate.seconds.get("back-off", 0.0)
    gate._looked_at = float("-inf")
    gate()
    return gate.seconds.get("back-off", 0.0) - before


def _slow_look(gate: Gate, other: Gate) -> float:
    """The same while the server needs half a second for the smallest query."""
    waits = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"

    with other.conn.transaction():
        other.conn.execute("LOCK TABLE public.rcll_runs IN ACCESS EXCLUSIVE MODE")
        found: list[float] = []
        thread = Thread(target=lambda: found.append(_look(gate)))
        thread.start()
        wait_until(lambda: other.conn.execute(waits, [gate.conn.info.backend_pid]).fetchone())
        time.sleep(0.5)
    thread.join()
    return found[0]


def test_pauses_grow_while_the_server_is_slow(gate_of):
    """Each slow look doubles the pause before the next transaction, each quick one halves it, down to none."""
    with gate_of(limits=PressureLimits(latency=0.4, lag=10**12)) as gate, gate_of() as other:
        waited = [_look(gate), *(_slow_look(gate, other) for _ in range(3)), *(_look(gate) for _ in range(3))]
    assert waited == pytest.approx([0, 0.05, 0.1, 0.2, 0.1, 0.05, 0])


class _Standby:
    """What the server takes for one: it receives WAL, and says how much it has replayed only when told to."""

    def __init__(self, url: str) -> None:
        address = conninfo.make_conninfo(url, replication="true")
        self._connection = pq.PGconn.connect(address.encode())
        identity = self._connection.exec_(b"IDENTIFY_SYSTEM")
        assert identity.status == pq.ExecStatus.TUPLES_OK, identity.error_message
        start = identity.get_value(0, 2)
        begun = self._connection.exec_(b"START_REPLICATION PHYSICAL " + start)
        assert begun.status == pq.ExecStatus.COPY_BOTH, begun.error_message
        self.tell(start.decode())

    def tell(self, lsn: str) -> None:
        """Say that everything up to here is written, flushed and replayed."""
        high, low = (int(half, 16) for half in lsn.split("/"))
        position = (high << 32) + low
        self._connection.put_copy_data(b"r" + struct.pack(">QQQqB", position, position, position, 0, 0))
        self._connection.flush()

    def close(self) -> None:
        self._connection.finish()


def test_pauses_grow_while_a_standby_is_behind(gate_of, server):
    """A receiver that is two megabytes behind makes the writer pause; once it has caught up, nothing does."""
    with gate_of(limits=PressureLimits(latency=30.0, lag=MEGABYTE)) as gate, psycopg.connect(server.url()) as conn:
        standby = _Standby(server.url())
        try:
            seen = "SELECT 1 FROM pg_stat_replication WHERE replay_lsn IS NOT NULL"
            wait_until(lambda: gate.conn.execute(seen).fetchone())
            assert _look(gate) == 0
            # In a transaction, so that its commit writes the message out of the buffers.
            conn.execute("SELECT pg_logical_emit_message(true, 'test', repeat('x', %s))", [2 * MEGABYTE])
            conn.commit()
            behind = [_look(gate), _look(gate)]
            (lsn,) = gate.conn.execute("SELECT pg_current_wal_lsn()::text").fetchone()
            standby.tell(lsn)
            replayed = "SELECT 1 FROM pg_stat_replication WHERE replay_lsn >= %s::pg_lsn"
            wait_until(lambda: gate.conn.execute(replayed, [lsn]).fetchone())
            after = [_look(gate), _look(gate)]
        finally:
            standby.close()
    assert behind == pytest.approx([0.05, 0.1])
    assert after == pytest.approx([0.05, 0])
