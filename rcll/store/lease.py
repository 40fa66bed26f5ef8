"""One writer per bank: a lease row with expiry and heartbeat, server clock only.

No session state, so it works through PgBouncer in transaction mode. The fencing token is checked, and the
row locked, inside every write transaction: a holder that was paused past its expiry writes nothing.
"""

import os
import socket
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from uuid import UUID

import psycopg

from rcll.errors import Busy, RcllError
from rcll.store.catalog import Tenant
from rcll.store.connect import Connection, Database
from rcll.store.sql import query

LEASE_SECONDS = 60.0
#: Three heartbeats fit into a lease: one lost connection does not cost it.
HEARTBEAT_SECONDS = LEASE_SECONDS / 3
#: Longer than a write transaction of a stopped holder can live: the server ends it after 5 s.
PATIENCE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Lease:
    """Banks of one tenant held by one run, with the fencing token of each; pickles."""

    run_id: UUID
    tokens: dict[str, int]

    def check(self, conn: Connection, tenant: Tenant, banks: Sequence[str]) -> None:
        """Make sure, inside the caller's transaction, that these banks are still ours until it commits.

        Raises:
            Busy: a bank was never leased by this run, or its lease expired and may be another's.
        """
        wanted = sorted(set(banks))
        lost = [bank for bank in wanted if bank not in self.tokens]
        if not lost:
            parameters = {"banks": wanted, "tokens": [self.tokens[b] for b in wanted], "run_id": self.run_id}
            held = conn.execute(query("check_leases", **tenant.names()), parameters).fetchall()
            lost = sorted(set(wanted) - {bank for (bank,) in held})
        if lost:
            raise Busy(
                f"the lease on bank '{lost[0]}' is no longer ours (expired and maybe taken by another run); "
                f"nothing was written to it; run again"
            )


@contextmanager
def hold_banks(database: Database, tenant: Tenant, banks: Sequence[str], run_id: UUID) -> Generator[Lease]:
    """Lease all of the banks or none, keep them by heartbeat, release them at the end.

    Raises:
        Busy: another run holds one of them; the message says who, and since when.
    """
    with database.connect() as conn:
        lease = _take(conn, tenant, banks, run_id)
    stop = threading.Event()
    beat = threading.Thread(target=_heartbeat, args=(database, tenant, lease, stop), daemon=True)
    beat.start()
    try:
        yield lease
    finally:
        stop.set()
        beat.join()
        with suppress(RcllError, psycopg.Error), database.connect() as conn:  # else the lease ends by itself
            parameters = {"run_id": run_id, "banks": list(lease.tokens)}
            conn.execute(query("release_leases", **tenant.names()), parameters)


def refuse_busy(conn: Connection, tenant: Tenant, banks: Sequence[str]) -> None:
    """Look whether anybody holds one of the banks now, before any costly beginning; only a lease makes sure.

    Raises:
        Busy: as :func:`hold_banks` would.
    """
    if conn.execute(query("lease_holders", **tenant.names()), {"banks": list(banks)}).fetchall():
        raise Busy(_who_holds(conn, tenant, banks))


def holder_name() -> str:
    """Who we are, for the one who has to wait."""
    return f"{socket.gethostname()} pid {os.getpid()}"


def _take(conn: Connection, tenant: Tenant, banks: Sequence[str], run_id: UUID) -> Lease:
    wanted = sorted(set(banks))
    parameters = {"banks": wanted, "holder": holder_name(), "run_id": run_id, "seconds": LEASE_SECONDS}
    try:
        with conn.transaction():
            conn.execute(query("patience"), {"milliseconds": str(round(1000 * PATIENCE_SECONDS))})
            taken = dict(conn.execute(query("take_leases", **tenant.names()), parameters).fetchall())
            missing = [bank for bank in wanted if bank not in taken]
            if missing:
                raise Busy(_who_holds(conn, tenant, missing))
    except psycopg.errors.LockNotAvailable:
        raise Busy(_who_holds(conn, tenant, wanted)) from None
    return Lease(run_id=run_id, tokens=taken)


def _who_holds(conn: Connection, tenant: Tenant, banks: Sequence[str]) -> str:
    holders = conn.execute(query("lease_holders", **tenant.names()), {"banks": list(banks)}).fetchall()
    if not holders:
        return f"bank '{banks[0]}' was in use by another run a moment ago; run again"
    bank, holder, run_id, since, until = holders[0]
    return (
        f"bank '{bank}' is in use by {holder} (run {run_id}) since {since}; "
        f"wait for it, or until its lease ends at {until} if that process is dead"
    )


def _heartbeat(database: Database, tenant: Tenant, lease: Lease, stop: threading.Event) -> None:
    parameters = {"run_id": lease.run_id, "banks": sorted(lease.tokens), "seconds": LEASE_SECONDS}
    while not stop.wait(HEARTBEAT_SECONDS):
        try:
            with database.connect() as conn:
                conn.execute(query("extend_leases", **tenant.names()), parameters)
        except (psycopg.Error, RcllError):
            continue  # the next write transaction finds out whether the lease survived
