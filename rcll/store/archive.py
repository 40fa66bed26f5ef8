"""Sources of closets that rest in the archive layer, so that recall shows the closet in their place."""

from collections.abc import Mapping, Sequence
from uuid import UUID

import polars as pl
from psycopg import sql

from rcll.store.catalog import Tenant
from rcll.store.connect import Connection, Database
from rcll.store.lease import Lease
from rcll.store.sql import query
from rcll.store.write import WRITES

#: What shall rest in the archive layer (store.write.WRITES), and the rules by which each was filed.
CLAIMED = pl.Schema({**WRITES, "taxonomy_hash": pl.String})
#: Units that are given back in one transaction.
BATCH_ROWS = 500


def claim_sources(database: Database, tenant: Tenant, bank: str, room: str, lease: Lease | None) -> pl.DataFrame:
    """Sources of a room's fresh closets that do not rest in the archive layer and could, the most central left out.

    Their closets note what they take the place of; without a lease nothing is written.

    Returns:
        CLAIMED, sorted by unit; what somebody set, an undo holds, is critical or has changed is not among them.
    """
    values = {"bank": bank, "room": room, "may_write": lease is not None}
    with database.connect() as conn, conn.transaction():
        if lease is not None:
            lease.check(conn, tenant, [bank])
        cursor = conn.execute(query("claim_sources", **tenant.names()), values)
        names = [column.name for column in cursor.description or ()]
        found = pl.DataFrame(cursor.fetchall(), schema={name: CLAIMED[name] for name in names}, orient="row")
    return found.select(CLAIMED.names())


def note_archived(database: Database, tenant: Tenant, unit_ids: Sequence[str], lease: Lease) -> None:
    """Let the undo log know of units that the run had written before."""
    with database.connect() as conn, conn.transaction():
        lease.check(conn, tenant, sorted(lease.tokens))
        values = {"run_id": lease.run_id, "unit_ids": list(unit_ids)}
        conn.execute(query("note_archived", **tenant.names()), values)


def release_sources(conn: Connection, tenant: Tenant, kept: Mapping[str, Sequence[str]], run_id: UUID) -> int:
    """Give units back their layer, inside the caller's transaction; returns how many.

    Args:
        conn: inside a transaction.
        tenant: whose units.
        kept: closets whose sources are given back, and those of each that stay archived.
        run_id: the run that does it.
    """
    pairs = [(closet_id, unit_id) for closet_id, unit_ids in kept.items() for unit_id in unit_ids]
    values = {
        "closet_ids": list(kept),
        "kept_closets": [closet_id for closet_id, _ in pairs],
        "kept_units": [unit_id for _, unit_id in pairs],
        "run_id": run_id,
    }
    row = conn.execute(_giving_back("release_sources", tenant), values).fetchone()
    return row[0] if row else 0


def release_orphans(database: Database, tenant: Tenant, lease: Lease) -> int:
    """Give back units whose closet is gone by another way, in short transactions; returns how many.

    All of the lease's banks at once: there may be thousands.
    """
    n_released = 0
    banks = sorted(lease.tokens)
    values = {"banks": banks, "run_id": lease.run_id, "limit": BATCH_ROWS}
    with database.connect() as conn:
        while True:
            with conn.transaction():
                lease.check(conn, tenant, banks)
                row = conn.execute(_giving_back("release_orphans", tenant), values).fetchone()
            if not row or not row[0]:
                return n_released
            n_released += row[0]


def _giving_back(name: str, tenant: Tenant) -> sql.Composed:
    names = tenant.names()
    return query(name, **names, give_back=query("give_back", **names))
