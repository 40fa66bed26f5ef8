"""Closets in the database: which exist, write new ones, drop those whose group is gone."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import zip_longest
from typing import Any, Literal, NamedTuple, TypeVar
from uuid import NAMESPACE_URL, UUID, uuid5

import numpy as np
import polars as pl
from psycopg.rows import dict_row

from rcll.stages.closets import CLOSET_SOURCES
from rcll.store.archive import release_sources
from rcll.store.catalog import Tenant
from rcll.store.connect import Connection, Database
from rcll.store.lease import Lease
from rcll.store.locks import LOCKED
from rcll.store.oneline import one_line_errors
from rcll.store.sql import query

#: Closets that are written, and those that are dropped, in one transaction: about 0.2 s.
BATCH_CLOSETS = 200
#: Tries of a transaction that waits for rows which somebody else has locked, and how long each waits.
TRIES, LOCK_TIMEOUT_MS = 6, "2000"

Status = Literal["fresh", "stale", "failed"]
_T = TypeVar("_T")


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
    """A closet as a reader sees it; ``status`` is fresh, stale or failed, only a fresh one is shown."""

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
    is_explicit: bool
    status: str
    unit_ids: list[str]


class ClosetChanges(NamedTuple):
    """What shall become of closets: ids to drop, what others are from now on, and those to insert or update."""

    dropped: Sequence[str] = ()
    marked: Mapping[str, Status] = {}
    written: Sequence[WrittenCloset] = ()


class Settled(NamedTuple):
    """Closets that were there and went, and a line for each that was not written."""

    n_gone: int
    unwritten: tuple[str, ...]


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
    closet_ids: Sequence[str] | None = None,
    limit: int | None = 100,
) -> list[Closet]:
    """Closets sorted by bank, room and size; freshness is checked against the units as they read now."""
    ids = None if closet_ids is None else list(closet_ids)
    values = {"banks": None if banks is None else list(banks), "room": room, "closet_ids": ids, "limit": limit}
    names = tenant.names()
    statement = query("list_closets", **names, is_stale=query("is_stale", **names))
    with conn.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(statement, values).fetchall()
    return [Closet(**row) for row in rows]


def find_closet(conn: Connection, tenant: Tenant, bank: str, fingerprint: str) -> str | None:
    """Id of a bank's closet of these sources as they read, None where there is none."""
    values = {"bank": bank, "source_hash": fingerprint}
    row = conn.execute(query("find_closet", **tenant.names()), values).fetchone()
    return row[0] if row else None


def match_closets(conn: Connection, tenant: Tenant, bounds: tuple[str, str]) -> list[str]:
    """Ids of up to three closets between two ids."""
    values = {"low": bounds[0], "high": bounds[1]}
    return [found for (found,) in conn.execute(query("match_closets", **tenant.names()), values).fetchall()]


def rooms_of_units(conn: Connection, tenant: Tenant, unit_ids: Sequence[str]) -> list[str | None]:
    """Rooms in which units stand, the commonest first."""
    rows = conn.execute(query("rooms_of_units", **tenant.names()), {"unit_ids": list(unit_ids)}).fetchall()
    return [room for (room,) in rows]


def new_closet_id(bank: str, room: str, fingerprint: str) -> str:
    """Id of a new closet: the same group gives the same one."""
    return str(uuid5(NAMESPACE_URL, f"rcll:closet:{bank}:{room}:{fingerprint}"))


def settle_closets(
    database: Database, tenant: Tenant, changes: ClosetChanges, lease: Lease, *, banks: Sequence[str]
) -> Settled:
    """Drop, mark and write closets; each transaction is short, and up to BATCH_CLOSETS of a kind are one.

    So what becomes of an ordinary room is one transaction: killed before it, the next run groups the room as if
    never begun. Sources that rested in the archive layer because of a closet get their layer back in the transaction
    that drops it, takes them out of it, or lets it go stale.

    Raises:
        Busy: the lease on one of the banks was lost; transactions that were committed stay.
        Transient: rows stayed locked by somebody else.
    """
    unwritten: list[str] = []
    n_gone = 0
    batches = zip_longest(
        _chunks(changes.dropped), _chunks(list(changes.marked.items())), _chunks(changes.written), fillvalue=()
    )
    with one_line_errors("writing closets"), database.connect() as conn:
        for dropped, marked, written in batches:
            batch = ClosetChanges(list(dropped), dict(marked), list(written))
            gone, reasons = _with_patience(partial(_settle, conn, tenant, batch, lease, banks))
            n_gone += gone
            unwritten += reasons
    return Settled(n_gone, tuple(unwritten))


def write_closets(database: Database, tenant: Tenant, closets: Sequence[WrittenCloset], lease: Lease) -> list[str]:
    """Insert or update closets.

    Returns:
        Why a closet was not written, one line for each that was not.
    """
    banks = sorted({closet.bank_id for closet in closets})
    return list(settle_closets(database, tenant, ClosetChanges(written=closets), lease, banks=banks).unwritten)


def drop_closets(database: Database, tenant: Tenant, bank: str, closet_ids: Sequence[str], lease: Lease) -> int:
    """Delete closets of one bank; returns how many were there."""
    return settle_closets(database, tenant, ClosetChanges(dropped=closet_ids), lease, banks=[bank]).n_gone


def _settle(
    conn: Connection, tenant: Tenant, batch: ClosetChanges, lease: Lease, banks: Sequence[str]
) -> tuple[int, list[str]]:
    """One transaction; returns how many closets went, and why some were not written."""
    with conn.transaction():
        conn.execute(query("patience"), {"milliseconds": LOCK_TIMEOUT_MS})
        lease.check(conn, tenant, banks)
        kept = {closet.closet_id: closet.unit_ids[1:] for closet in batch.written}
        hidden = [closet_id for closet_id, status in batch.marked.items() if status != "fresh"]
        release_sources(conn, tenant, dict.fromkeys([*batch.dropped, *hidden], ()) | kept, lease.run_id)
        ids = {"closet_ids": list(batch.dropped)}
        n_gone = len(conn.execute(query("delete_closets", **tenant.names()), ids).fetchall())
        written = _write(conn, tenant, batch.written, lease.run_id)
        missed = [closet for closet in batch.written if closet.closet_id not in written]
        release_sources(conn, tenant, dict.fromkeys([closet.closet_id for closet in missed], ()), lease.run_id)
        _mark(conn, tenant, dict(batch.marked) | {closet.closet_id: "stale" for closet in missed})
    return n_gone, [
        f"a source in room '{closet.room}' of bank '{closet.bank_id}' changed meanwhile, "
        "or the bank has no row in the table of banks; run again"
        for closet in missed
    ]


def _write(conn: Connection, tenant: Tenant, closets: Sequence[WrittenCloset], run_id: UUID) -> set[str]:
    """Ids of the closets that were written."""
    if not closets:
        return set()
    with conn.cursor() as cursor:
        cursor.executemany(
            query("write_closet", **tenant.names()), [_parameters(c, run_id) for c in closets], returning=True
        )
        return {row[0] for result in cursor.results() for row in result.fetchall()}


def _mark(conn: Connection, tenant: Tenant, marked: Mapping[str, str]) -> None:
    if marked:
        values = {"closet_ids": list(marked), "statuses": list(marked.values())}
        conn.execute(query("mark_closets", **tenant.names()), values)


def _with_patience(attempt: Callable[[], _T]) -> _T:
    """Repeat a transaction that meets somebody else's locks."""
    for turn in range(TRIES - 1):
        try:
            return attempt()
        except LOCKED:
            time.sleep(random.uniform(0.5, 1.5) * 0.2 * 2**turn)  # noqa: S311 - jitter
    return attempt()


def _chunks(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    return (items[start : start + BATCH_CLOSETS] for start in range(0, len(items), BATCH_CLOSETS))


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
