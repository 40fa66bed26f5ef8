"""Who may tell a run to wait or to end: people through its row, a time of day, and a server that suffers."""

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from rcll.errors import Stopped
from rcll.pauses import PauseWindow
from rcll.progress import notice
from rcll.stages.throttle import Pressure, PressureLimits, next_pause
from rcll.store.catalog import Tenant
from rcll.store.connect import Connection, Database
from rcll.store.sql import query

Word = Literal["pause", "resume", "stop"]

#: Between two looks at the run's row and the server: how soon a pause or a stop takes hold.
LOOK_SECONDS = 1.0


@dataclass(slots=True)
class Gate:
    """Stands before every write transaction; see :func:`open_gate`. ``seconds`` counts the waits by their reason.

    Pause windows go by the database's clock, as leases do: of several machines one may be wrong.
    """

    conn: Connection
    tenant: Tenant
    run_id: UUID
    windows: Sequence[PauseWindow]
    limits: PressureLimits
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    _pause: float = 0.0
    _looked_at: float = float("-inf")
    _reason: str | None = None

    def __call__(self) -> None:
        """Return when something may be written.

        Raises:
            Stopped: somebody asked the run to stop.
        """
        self._look()
        while self._reason:
            self._wait(self._reason, LOOK_SECONDS)
            self._look()
        if self._pause:
            self._wait("back-off", self._pause)

    def _look(self) -> None:
        began = time.monotonic()
        if began - self._looked_at < LOOK_SECONDS:
            return
        values = {"run_id": self.run_id}
        row = self.conn.execute(query("look_at_run", **self.tenant.names()), values).fetchone()
        assert row is not None
        word, lag, now = row
        self._looked_at = time.monotonic()
        if word == "stop":
            raise Stopped("the run was asked to stop; what was committed stays; run again to go on")
        is_closed = any(window.contains(now) for window in self.windows)
        self._say("asked to pause" if word == "pause" else "pause window" if is_closed else None)
        self._pause = next_pause(self._pause, Pressure(self._looked_at - began, lag), self.limits)

    def _say(self, reason: str | None) -> None:
        if reason != self._reason:
            notice(f"the run waits: {reason}" if reason else "the run goes on")
        self._reason = reason

    def _wait(self, reason: str, seconds: float) -> None:
        time.sleep(seconds)
        self.seconds[reason] = self.seconds.get(reason, 0.0) + seconds


@contextmanager
def open_gate(
    database: Database, tenant: Tenant, run_id: UUID, *, windows: Sequence[PauseWindow], limits: PressureLimits
) -> Generator[Gate]:
    """Give the gate of a run, on a connection of its own: a query of no weight, which tells the server's latency."""
    with database.connect() as conn:
        yield Gate(conn, tenant, run_id, windows, limits)


def server_clock(conn: Connection) -> datetime:
    """The moment by the database's clock."""
    row = conn.execute(query("server_clock")).fetchone()
    assert row is not None
    return row[0]


def control_runs(conn: Connection, tenant: Tenant, word: Word, run_id: str | None) -> list[str]:
    """Ask the running backfills, or one of them, to pause, go on or stop; returns their ids."""
    rows = conn.execute(query("control_runs", **tenant.names()), {"word": word, "run": run_id}).fetchall()
    return [found for (found,) in rows]


def close_runs_of_flow(database: Database, tenant: Tenant, flow_run: str, reason: str) -> list[str]:
    """End what a dead process of a Prefect flow run left open: release its banks, close its runs as failed.

    Returns:
        The runs that were open.
    """
    names = tenant.names()
    with suppress(psycopg.Error), database.connect() as conn:
        rows = conn.execute(query("runs_of_flow", **names), {"flow_run": flow_run}).fetchall()
        for (run_id,) in rows:
            conn.execute(query("release_run", **names), {"run_id": run_id})
            conn.execute(query("close_run", **names), {"run_id": run_id, "summary": Jsonb({"error": reason})})
        return [run_id for (run_id,) in rows]
    return []
