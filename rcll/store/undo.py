"""What a run left behind in the database, read and removed for undo."""

from typing import NamedTuple
from uuid import UUID

import polars as pl
import psycopg
from psycopg import sql

from rcll.errors import InputError
from rcll.stages.undo import UNDO
from rcll.store.catalog import Tenant
from rcll.store.closets import drop_closets
from rcll.store.connect import Connection, Database
from rcll.store.lease import Lease
from rcll.store.ledger import Run
from rcll.store.sql import query

_FIRST = "00000000-0000-0000-0000-000000000000"
PAGE_ROWS = 5_000
#: Rows of one transaction that removes or releases.
BATCH_ROWS = 2_000


class Removed(NamedTuple):
    """Closets and tunnels that an undo dropped."""

    n_closets: int
    n_tunnels: int


def find_run(conn: Connection, tenant: Tenant, run_id: str) -> Run | None:
    """One run, or None where the tenant has no such run.

    Raises:
        InputError: that is no run id.
    """
    try:
        row = conn.execute(query("find_run", **tenant.names()), {"run_id": run_id}).fetchone()
    except psycopg.errors.InvalidTextRepresentation:
        raise InputError(f"'{run_id[:60]}' is no run id; expected a uuid, as rcll runs shows") from None
    return Run(*row) if row else None


def touched_banks(conn: Connection, tenant: Tenant, run_id: str) -> list[str]:
    """Banks in which a run wrote anything, sorted."""
    rows = conn.execute(_of_run("touched_banks", tenant), {"run_id": run_id}).fetchall()
    return [bank for (bank,) in rows if bank is not None]


def read_written(conn: Connection, tenant: Tenant, run_id: str) -> pl.DataFrame:
    """What a run wrote beside what is there now: stages.undo.UNDO, sorted by unit; in short statements."""
    pages = [pl.DataFrame(schema=UNDO)]
    statement = _of_run("select_undo_page", tenant)
    after = _FIRST
    while True:
        values = {"run_id": run_id, "after": after, "limit": PAGE_ROWS}
        rows = conn.execute(statement, values).fetchall()
        pages.append(pl.DataFrame(rows, schema=UNDO, orient="row"))
        if len(rows) < PAGE_ROWS:
            return pl.concat(pages)
        after = rows[-1][0]


def remove_findings(database: Database, tenant: Tenant, run_id: str, lease: Lease) -> Removed:
    """Drop the closets and tunnels that a run made by itself, in short transactions."""
    with database.connect() as conn:
        found = conn.execute(query("select_run_closets", **tenant.names()), {"run_id": run_id}).fetchall()
        by_bank: dict[str, list[str]] = {}
        for bank, closet_id in found:
            by_bank.setdefault(bank, []).append(closet_id)
        n_closets = sum(drop_closets(database, tenant, bank, ids, lease) for bank, ids in by_bank.items())
        n_tunnels = 0
        while n_gone := _delete_tunnels(conn, tenant, run_id, lease):
            n_tunnels += n_gone
    return Removed(n_closets, n_tunnels)


def mark_undone(conn: Connection, tenant: Tenant, run_id: str) -> None:
    """Record that a run has been taken back."""
    conn.execute(query("mark_undone", **tenant.names()), {"run_id": run_id})


def release_holds(conn: Connection, tenant: Tenant, run_id: str, lease: Lease) -> int:
    """Let the rules decide again about what the undo of a run holds; returns how many units that are."""
    n_released, after = 0, _FIRST
    while after is not None:
        values = {"run_id": run_id, "after": after, "limit": BATCH_ROWS}
        with conn.transaction():
            lease.check(conn, tenant, list(lease.tokens))
            row = conn.execute(_of_run("release_holds", tenant), values).fetchone()
        assert row is not None
        after, n_page = row
        n_released += n_page
    return n_released


def _of_run(name: str, tenant: Tenant) -> sql.Composed:
    names = tenant.names()
    return query(name, **names, of_run=query("of_run", **names))


def _delete_tunnels(conn: Connection, tenant: Tenant, run_id: str, lease: Lease) -> int:
    with conn.transaction():
        lease.check(conn, tenant, list(lease.tokens))
        values = {"run_id": UUID(run_id), "limit": BATCH_ROWS}
        return len(conn.execute(query("delete_run_tunnels", **tenant.names()), values).fetchall())
