"""Closets in the database: which exist, write new ones, drop those whose group is gone."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

import numpy as np
import polars as pl
from psycopg.rows import dict_row

from rcll.stages.closets import CLOSET_SOURCES
from rcll.store.catalog import Tenant
from rcll.store.connect import Connection, Database
from rcll.store.lease import Lease
from rcll.store.sql import query


class WrittenCloset(NamedTuple):
    """A closet to be written, in place of the one that bears its id; sources by rank, the most central first."""

    closet_id: str
    bank_id: str
    room: str
    hall: str
    title: str
    summary: str
    embedding: np.ndarray | None
    embedding_model: str | None
    unit_ids: tuple[str, ...]
    text_hashes: tuple[str, ...]
    source_hash: str
    model: str
    is_extractive: bool
    n_read: int


class Closet(NamedTuple):
    """A closet as a reader sees it; ``status`` is fresh, stale or failed."""

    closet_id: str
    bank_id: str
    room: str
    hall: str
    title: str
    summary: str
    model: str
    is_extractive: bool
    n_read: int
    n_sources: int
    created_at: datetime
    status: str
    unit_ids: list[str]


def closet_sources(conn: Connection, tenant: Tenant, bank: str, room: str) -> pl.DataFrame:
    """stages.closets.CLOSET_SOURCES of a bank and room, sorted by closet and unit."""
    statement = query("select_closet_sources", **tenant.names())
    rows = conn.execute(statement, {"bank": bank, "room": room}).fetchall()
    return pl.DataFrame(rows, schema=CLOSET_SOURCES, orient="row")


def rooms_with_closets(conn: Connection, tenant: Tenant, banks: Sequence[str] | None) -> list[tuple[str, str]]:
    """(bank, room) pairs that have closets, sorted."""
    names = None if banks is None else list(banks)
    rows = conn.execute(query("rooms_with_closets", **tenant.names()), {"banks": names}).fetchall()
    return [(bank, room) for bank, room in rows]


def list_closets(
    conn: Connection,
    tenant: Tenant,
    *,
    banks: Sequence[str] | None = None,
    room: str | None = None,
    limit: int = 100,
) -> list[Closet]:
    """Closets sorted by bank, room and size; freshness is checked against the units as they read now."""
    values = {"banks": None if banks is None else list(banks), "room": room, "limit": limit}
    with conn.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(query("list_closets", **tenant.names()), values).fetchall()
    return [Closet(**row) for row in rows]


def new_closet_id(bank: str, room: str, fingerprint: str) -> str:
    """Id of a new closet: the same group gives the same one."""
    return str(uuid5(NAMESPACE_URL, f"rcll:closet:{bank}:{room}:{fingerprint}"))


def write_closets(database: Database, tenant: Tenant, closets: Sequence[WrittenCloset], lease: Lease) -> list[str]:
    """Insert or update closets, each in its own short transaction.

    Returns:
        Why a closet was not written, one line for each that was not.
    """
    unwritten: list[str] = []
    statement = query("write_closet", **tenant.names())
    with database.connect() as conn:
        for closet in closets:
            with conn.transaction():
                lease.check(conn, tenant, [closet.bank_id])
                rows = conn.execute(statement, _parameters(closet, lease.run_id)).fetchall()
            if not rows:
                unwritten.append(
                    f"a source in room '{closet.room}' of bank '{closet.bank_id}' changed meanwhile, "
                    "or the bank has no row in the table of banks; run again"
                )
    return unwritten


def mark_closets(
    database: Database, tenant: Tenant, bank: str, lease: Lease, *, failed: Sequence[str], fresh: Sequence[str]
) -> None:
    """Mark closets whose refresh failed, whose old text stays and is not shown, and those that are right again."""
    if failed or fresh:
        with database.connect() as conn, conn.transaction():
            lease.check(conn, tenant, [bank])
            ids = {"failed": list(failed), "fresh": list(fresh)}
            conn.execute(query("mark_closets", **tenant.names()), ids)


def drop_closets(database: Database, tenant: Tenant, bank: str, closet_ids: Sequence[str], lease: Lease) -> int:
    """Delete closets of one bank; returns how many were there."""
    if not closet_ids:
        return 0
    with database.connect() as conn, conn.transaction():
        lease.check(conn, tenant, [bank])
        ids = {"closet_ids": list(closet_ids)}
        rows = conn.execute(query("delete_closets", **tenant.names()), ids).fetchall()
    return len(rows)


def _parameters(closet: WrittenCloset, run_id: UUID) -> dict[str, Any]:
    vector = None if closet.embedding is None else f"[{','.join(f'{x:.7g}' for x in closet.embedding)}]"
    return closet._asdict() | {
        "bank": closet.bank_id,
        "embedding": vector,
        "unit_ids": list(closet.unit_ids),
        "text_hashes": list(closet.text_hashes),
        "ranks": list(range(len(closet.unit_ids))),
        "n_sources": len(closet.unit_ids),
        "run_id": run_id,
    }
