"""What rcll forgets of its own: the undo log of old runs, and labels of units that are long gone."""

from typing import Any
from uuid import UUID

from psycopg import sql

from rcll.store.catalog import Tenant
from rcll.store.connect import Connection
from rcll.store.sql import query

#: Rows of one short transaction.
BATCH_ROWS = 2_000
#: Labels are looked through a share a run: the pass costs about as much as reading that share of the units.
_SHARES = 16


def expire_changes(conn: Connection, tenant: Tenant, *, days: int) -> int:
    """Forget what runs replaced that ended so many days ago; returns how many rows went."""
    n_gone = 0
    values: dict[str, Any] = {"days": days, "limit": BATCH_ROWS}
    while rows := conn.execute(query("expire_changes", **tenant.names()), values).fetchall():
        n_gone += len(rows)
    return n_gone


def expire_labels(conn: Connection, tenant: Tenant, run_id: UUID, *, days: int) -> int:
    """Look for labels whose unit is gone in one share of the ledger, and drop those gone for so many days.

    Args:
        conn: autocommit.
        tenant: whose ledger.
        run_id: a random id; it picks the share, so that many runs see all.
        days: a unit that comes back earlier, from a backup, is known again.

    Returns:
        How many labels went.
    """
    names = tenant.names()
    is_archived = query("is_archived", **names) if tenant.archive else sql.SQL("false")
    statement = query("expire_labels", **names, is_archived=is_archived)
    first, last = _share(run_id)
    n_gone, after = 0, first
    while after is not None:
        values = {"after": after, "last": last, "limit": BATCH_ROWS, "days": days}
        row = conn.execute(statement, values).fetchone()
        assert row is not None
        after, n_page = row
        n_gone += n_page
    return n_gone


def _share(run_id: UUID) -> tuple[str, str]:
    size = 2**128 // _SHARES
    first = (run_id.int // size) * size
    return str(UUID(int=first)), str(UUID(int=first + size - 1))
