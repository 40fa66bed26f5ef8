"""Pages of tunnels and closets as a caller may see them; for the service."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from psycopg.rows import dict_row

from rcll.store.catalog import Tenant
from rcll.store.pool import AsyncConnection
from rcll.store.sql import query


class LinkPage(NamedTuple):
    """Some rows, and how many there are in all."""

    items: list[dict[str, Any]]
    total: int


async def page_tunnels(
    conn: AsyncConnection,
    tenant: Tenant,
    *,
    readable: Sequence[str] | None,
    bank: str | None = None,
    tunnel_id: str | None = None,
    limit: int,
    offset: int = 0,
) -> LinkPage:
    """Tunnels with both ends in readable banks (None: all), the strongest first."""
    return await _page(conn, tenant, "page_tunnels", readable, limit, offset, bank=bank, tunnel_id=tunnel_id)


async def page_closets(
    conn: AsyncConnection,
    tenant: Tenant,
    *,
    readable: Sequence[str] | None,
    bank: str | None = None,
    room: str | None = None,
    hall: str | None = None,
    closet_id: str | None = None,
    limit: int,
    offset: int = 0,
) -> LinkPage:
    """Closets of readable banks (None: all) by bank, room and size, with their freshness."""
    asked = {"bank": bank, "room": room, "hall": hall, "closet_id": closet_id}
    return await _page(conn, tenant, "page_closets", readable, limit, offset, **asked)


async def _page(
    conn: AsyncConnection,
    tenant: Tenant,
    name: str,
    readable: Sequence[str] | None,
    limit: int,
    offset: int,
    **asked: str | None,
) -> LinkPage:
    values = {"readable": None if readable is None else list(readable), "limit": limit, "offset": offset, **asked}
    async with conn.cursor(row_factory=dict_row) as cursor:
        names = tenant.names()
        statement = query(name, **names, is_stale=query("is_stale", **names))
        await cursor.execute(statement, values)
        rows = await cursor.fetchall()
        if not rows and offset:  # beyond the end: the count alone
            await cursor.execute(statement, values | {"limit": 1, "offset": 0})
            return LinkPage([], sum(row["total"] for row in await cursor.fetchall()))
    total = rows[0].pop("total") if rows else 0
    return LinkPage([{key: row[key] for key in row if key != "total"} for row in rows], total)
