"""Searches for the service: nearest units by the vector indexes, exactly by the ledger's, and what belongs to them.

Every search takes :class:`Question` and gives distances by cosine; a row whose vector has no direction is not found.
"""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from rcll.errors import DatabaseError
from rcll.stages.recall import ClosetHit, Filters, Hit
from rcll.store.catalog import Tenant
from rcll.store.pool import AsyncConnection, Pool
from rcll.store.sql import query

#: A statement that takes longer is called off.
STATEMENT_SECONDS = 20
#: Fact types of Hindsight, by which its vector indexes are partial.
_FACT_TYPES = ("world", "experience", "observation")
#: Columns that are told beside a unit where its table has them, and their names in an answer.
_EXTRAS = {
    "fact_type": "type",
    "context": "context",
    "document_id": "document_id",
    "chunk_id": "chunk_id",
    "tags": "tags",
    "metadata": "metadata",
    "occurred_start": "occurred_start",
    "occurred_end": "occurred_end",
    "mentioned_at": "mentioned_at",
}
_NUMBER = sql.SQL("coalesce(substring(u.layer::text FROM '^\\s*[lL]?([0-9]{1,4})\\s*$')::integer, 2)")
_PLAIN_NUMBER = sql.SQL("coalesce(u.layer, 2)")


@dataclass(frozen=True, slots=True)
class Question:
    """What is searched for: a vector in the bank's space, and labels."""

    bank: str
    vector: str
    """pgvector's text form."""
    filters: Filters

    def values(self, **more: Any) -> dict[str, Any]:
        """Parameters of the queries."""
        found = self.filters
        rooms = None if found.rooms is None else list(found.rooms)
        halls = None if found.halls is None else list(found.halls)
        labels = {"rooms": rooms, "halls": halls, "max_layer": found.max_layer}
        return {"bank": self.bank, "vector": self.vector, **labels, **more}


class Hop(NamedTuple):
    """A tunnel from a unit that was found to one in another bank."""

    tunnel_id: str
    relationship: str | None
    score: float | None
    method: str
    near_id: str
    far_id: str


class Nearest(NamedTuple):
    """What a search by the vector indexes found, nearest first.

    The first ``n_trusted`` of ``hits`` are among the nearest third of the ``n_seen`` units that were looked at, whether
    asked for or not; farther out an HNSW index passes over many.
    """

    hits: list[Hit]
    n_trusted: int
    n_seen: int


class FoundUnit(NamedTuple):
    """A unit as recall shows it; ``extras`` are the columns that its table happens to have."""

    unit_id: str
    bank_id: str
    text: str
    room: str
    hall: str
    layer: int
    extras: dict[str, Any]


def vector_text(vector: np.ndarray) -> str:
    """The text form of a vector; nine digits give every float32 back."""
    return f"[{','.join(f'{x:.9g}' for x in vector)}]"


class Searcher:
    """The queries of one tenant over one connection, inside one transaction."""

    def __init__(self, conn: AsyncConnection, tenant: Tenant, *, has_types: bool) -> None:
        self._conn, self._tenant, self._has_types = conn, tenant, has_types
        schema = tenant.embedding.extension_schema if tenant.embedding else tenant.vector_schema
        cosine = sql.SQL("OPERATOR({}.<=>)").format(sql.Identifier(schema))
        self._names = {**tenant.names(), "cosine": cosine, "layer": layer_number(tenant)}

    async def nearest(self, question: Question, limit: int, depth: int) -> Nearest:
        """The nearest units asked for among those that the vector indexes find, three times ``depth`` in all."""
        types = [sql.SQL("u.fact_type = {}").format(t) for t in _FACT_TYPES] if self._has_types else [sql.SQL("true")]
        branches = [self._query("search_branch", question, of_type=of_type) for of_type in types]
        statement = query("search_nearest", branches=sql.SQL("\nUNION ALL\n").join(branches))
        values = question.values(limit=limit, each=depth * len(_FACT_TYPES) // len(branches))
        rows = await self._rows(statement, values)
        n_trusted = sum(place <= depth for _, _, place, _ in rows)
        return Nearest([Hit(*row[:2]) for row in rows], n_trusted, n_seen=rows[0][3] if rows else 0)

    async def n_filed(self, question: Question, most: int) -> int:
        """How many units the ledger has in the rooms, halls and layers asked for, ``most`` if more."""
        statement = query("count_filed", filed_in=query("filed_in", **self._names))
        rows = await self._rows(statement, question.values(most=most))
        return int(rows[0][0])

    async def exact(self, question: Question, limit: int) -> list[Hit]:
        """The nearest units of the rooms, halls and layers asked for, every one looked at."""
        statement = self._query("search_exact", question, filed_in=query("filed_in", **self._names))
        return [Hit(*row) for row in await self._rows(statement, question.values(limit=limit))]

    async def distances(self, question: Question, unit_ids: Sequence[str]) -> dict[str, float]:
        """How far given units are; those without a vector are left out."""
        values = question.values(unit_ids=list(unit_ids))
        return dict(await self._rows(self._query("unit_distances", question), values))

    async def critical(self, question: Question, limit: int) -> tuple[list[tuple[str, float | None]], int]:
        """(unit, distance) of layer 0, nearest first, and how many there are in all."""
        rows = await self._rows(self._query("search_critical", question), question.values(limit=limit))
        return [(unit_id, distance) for unit_id, distance, _ in rows], rows[0][2] if rows else 0

    async def closets(self, question: Question, limit: int) -> tuple[list[ClosetHit], list[Hit]]:
        """Fresh closets among the ``limit`` nearest, and the archived units that the others no longer stand for."""
        names = {"is_stale": query("is_stale", **self._names)}
        rows = await self._rows(self._query("search_closets", question, **names), question.values(limit=limit))
        fresh = [ClosetHit(closet_id, distance, tuple(ids)) for closet_id, distance, ids, is_fresh in rows if is_fresh]
        stale = [closet_id for closet_id, _, _, is_fresh in rows if not is_fresh]
        if not stale:
            return fresh, []
        uncovered = await self._rows(self._query("search_uncovered", question), question.values(closet_ids=stale))
        return fresh, [Hit(*row) for row in uncovered]

    async def units(self, unit_ids: Sequence[str]) -> dict[str, FoundUnit]:
        """Units by id; those that are gone by now are left out."""
        statement = query("select_units", **self._names, extras=_extras(self._tenant))
        rows = await self._rows(statement, {"unit_ids": list(unit_ids)})
        return {row[0]: FoundUnit(*row) for row in rows}

    async def closet_rows(self, closet_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Closets by id, less their sources."""
        async with self._conn.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(query("select_closets", **self._names), {"closet_ids": list(closet_ids)})
            return {row["id"]: row for row in await cursor.fetchall()}

    async def banks(self) -> list[str]:
        """Registered banks of the tenant, sorted."""
        return [bank for (bank,) in await self._rows(query("registered_banks", **self._names), {})]

    async def hops(
        self, unit_ids: Sequence[str], *, banks: Sequence[str] | None, max_layer: int, limit: int
    ) -> list[Hop]:
        """Tunnels from these units into these banks (None: all), in the order of the units, the strongest first."""
        values = {"banks": None if banks is None else list(banks), "max_layer": max_layer, "limit": limit}
        rows = await self._rows(query("follow_tunnels", **self._names), values | {"unit_ids": list(unit_ids)})
        return [Hop(*row) for row in rows]

    def _query(self, name: str, question: Question, **more: sql.Composable) -> sql.Composed:
        # what stands in a literal passes through the search for placeholders, where % means one
        bank = sql.Literal(question.bank.replace("%", "%%"))
        in_filter = query("in_filter", **self._names)
        return query(name, **{**self._names, "bank": bank, "in_filter": in_filter, **more})

    async def _rows(self, statement: sql.Composed, values: dict[str, Any]) -> list[Any]:
        return await (await self._conn.execute(statement, values)).fetchall()


@asynccontextmanager
async def searching(pool: Pool, tenant: Tenant, *, has_types: bool) -> AsyncGenerator[Searcher]:
    """A searcher in a transaction of its own, whose settings end with it.

    Raises:
        Transient: a statement took too long.
        DatabaseError: the bank's vectors have another length than the question's.
    """
    try:
        # pipeline: what begins and ends the transaction travels with its queries
        async with pool.connection() as conn, conn.pipeline(), conn.transaction():
            await conn.execute(query("search_settings"), {"timeout": f"{STATEMENT_SECONDS}s"})
            yield Searcher(conn, tenant, has_types=has_types)
    except psycopg.errors.DataException as error:
        raise DatabaseError(f"vectors cannot be compared: {error.diag.message_primary}; run rcll doctor") from None


async def vector_indexes(conn: AsyncConnection, tenant: Tenant) -> tuple[bool, bool]:
    """Whether memory_units has vector indexes, and whether they are partial by fact_type."""
    units = sql.Identifier(tenant.schema, tenant.units).as_string(conn)
    row = await (await conn.execute(query("vector_indexes"), {"units": units})).fetchone()
    assert row is not None
    return row[0], row[1]


async def probe_units(conn: AsyncConnection, tenant: Tenant, bank: str) -> tuple[list[str], np.ndarray]:
    """A few texts of a bank and their stored vectors (n_texts, n_dims), to see what made them."""
    rows = await (await conn.execute(query("probe_units", **tenant.names()), {"bank": bank})).fetchall()
    return [text for text, _ in rows], np.array([json.loads(vector) for _, vector in rows], dtype=np.float32)


async def has_bank(conn: AsyncConnection, tenant: Tenant, bank: str) -> bool:
    """Whether a bank is registered or bears units."""
    if tenant.bank_type == "uuid" and not is_uuid(bank):
        return False
    row = await (await conn.execute(query("has_bank", **tenant.names()), {"bank": bank})).fetchone()
    return bool(row and row[0])


def is_uuid(text: str) -> bool:
    """Whether PostgreSQL would read it as a uuid in its plain form."""
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def layer_number(tenant: Tenant) -> sql.SQL:
    """The number of a unit's layer; a fork stores it as text."""
    return _NUMBER if tenant.layer_type == "text" else _PLAIN_NUMBER


def _extras(tenant: Tenant) -> sql.Composed:
    pairs = [
        sql.SQL("{}::text, u.{}").format(sql.Literal(shown), sql.Identifier(column))
        for column, shown in _EXTRAS.items()
        if column in tenant.unit_columns
    ]
    return sql.SQL("jsonb_build_object({})").format(sql.SQL(", ").join(pairs))
