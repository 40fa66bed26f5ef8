"""What there is: banks, their rooms, and where units stand; for the service."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rcll.store.catalog import Tenant
from rcll.store.pool import AsyncConnection
from rcll.store.sql import query


class BankPage(NamedTuple):
    """Some banks with their units, and how many banks there are."""

    items: list[dict[str, Any]]
    total: int


async def registered_banks(conn: AsyncConnection, tenant: Tenant) -> list[str]:
    """Registered banks of the tenant, sorted."""
    rows = await (await conn.execute(query("registered_banks", **tenant.names()))).fetchall()
    return [bank for (bank,) in rows]


async def page_banks(
    conn: AsyncConnection, tenant: Tenant, *, allowed: Callable[[list[str]], list[str]], limit: int, offset: int
) -> BankPage:
    """Banks that ``allowed`` lets through, sorted by name; units are counted only for those of the page."""
    banks = allowed(await registered_banks(conn, tenant))
    values = {"banks": banks[offset : offset + limit]}
    rows = await (await conn.execute(query("page_banks", **tenant.names()), values)).fetchall()
    return BankPage([{"bank_id": bank, "n_units": n_units} for bank, n_units in rows], len(banks))


async def count_rooms(conn: AsyncConnection, tenant: Tenant, bank: str) -> list[dict[str, Any]]:
    """Rooms of a bank with their units and halls, the largest first."""
    rooms: dict[str, dict[str, int]] = {}
    rows = await (await conn.execute(query("count_rooms", **tenant.names()), {"bank": bank})).fetchall()
    for room, hall, n_units in rows:
        rooms.setdefault(room, {})[hall] = n_units
    found = [{"room": room, "count": sum(halls.values()), "halls": halls} for room, halls in rooms.items()]
    return sorted(found, key=lambda row: (-row["count"], row["room"]))


async def unit_banks(conn: AsyncConnection, tenant: Tenant, unit_ids: Sequence[str]) -> dict[str, str]:
    """Bank of each of these units; those that do not exist are left out."""
    values = {"unit_ids": list(unit_ids)}
    return dict(await (await conn.execute(query("unit_banks", **tenant.names()), values)).fetchall())
