"""How a tenant stands: one row per bank."""

from typing import NamedTuple

from rcll.frames import DEFAULT_ROOM
from rcll.store.catalog import Tenant
from rcll.store.connect import Connection
from rcll.store.extract import count_units
from rcll.store.sql import query


class BankStatus(NamedTuple):
    """Counts of one bank; all but ``n_units`` are None where the tenant lacks rcll's tables."""

    bank_id: str
    n_units: int
    n_filed: int | None = None
    n_explicit: int | None = None
    n_general: int | None = None
    n_rooms: int | None = None
    n_closets: int | None = None
    n_tunnels: int | None = None


def bank_status(conn: Connection, tenant: Tenant) -> list[BankStatus]:
    """Banks that bear units, sorted by name."""
    if not tenant.has("ledger", "closets", "tunnels"):
        return [BankStatus(bank, n_units) for bank, n_units in count_units(conn, tenant).items()]
    rows = conn.execute(query("bank_status", **tenant.names()), {"fallback": DEFAULT_ROOM}).fetchall()
    return [BankStatus(*row) for row in rows]


def count_rule_hits(conn: Connection, tenant: Tenant, bank: str) -> dict[str, int]:
    """Units of a bank that each rule filed, by rule id; rules that filed none are absent."""
    return dict(conn.execute(query("count_rule_hits", **tenant.names()), {"bank": bank}).fetchall())
