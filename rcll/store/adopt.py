"""Makes labels that others have set rcll's own: a fork's automatic ones, a restored backup's."""

from typing import NamedTuple

from psycopg import sql

from rcll.store.catalog import Tenant
from rcll.store.connect import Connection, Database
from rcll.store.lease import Lease
from rcll.store.ledger import BY_HAND
from rcll.store.sql import query

_FIRST = "00000000-0000-0000-0000-000000000000"
#: Units of one transaction; only the ledger is written.
PAGE_ROWS = 2_000


class ForeignLabel(NamedTuple):
    """So many units of a bank bear this value of room, hall or layer, and somebody else than rcll has set it."""

    field: str
    value: str
    n_units: int


def preview_adoption(conn: Connection, tenant: Tenant, bank: str) -> list[ForeignLabel]:
    """What :func:`adopt_bank` would take over: rooms, layers, halls, each by number of units; reads only."""
    statement = query("preview_adoption", **tenant.names(), foreign_labels=_foreign_labels(tenant))
    rows = conn.execute(statement, {"bank": bank, "after": _FIRST, "by_hand": BY_HAND}).fetchall()
    return [ForeignLabel(*row) for row in rows]


def adopt_bank(database: Database, tenant: Tenant, bank: str, lease: Lease) -> int:
    """Take over the foreign labels of a bank, in short transactions; the next run decides about them anew.

    What was set through ``rcll label`` stays explicit. Returns how many units were adopted.
    """
    statement = query("adopt_page", **tenant.names(), foreign_labels=_foreign_labels(tenant))
    n_adopted, after = 0, _FIRST
    with database.connect() as conn:
        while after is not None:
            values = {"bank": bank, "after": after, "limit": PAGE_ROWS, "by_hand": BY_HAND, "run_id": lease.run_id}
            with conn.transaction():
                lease.check(conn, tenant, [bank])
                row = conn.execute(statement, values).fetchone()
            assert row is not None
            after, n_page = row
            n_adopted += n_page
    return n_adopted


def _foreign_labels(tenant: Tenant) -> sql.Composed:
    return query("foreign_labels", **tenant.names())
