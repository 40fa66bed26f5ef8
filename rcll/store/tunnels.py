"""Tunnels in the database: rcll keeps its own equal to what it finds, and leaves the rest alone."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import NAMESPACE_URL, uuid5

import polars as pl
from psycopg.rows import dict_row

from rcll.frames import DEFAULT_ROOM, TUNNELS, require_schema
from rcll.store.catalog import Tenant
from rcll.store.connect import Connection, Database
from rcll.store.lease import Lease
from rcll.store.sql import query

BATCH_ROWS = 500


class Tunnel(NamedTuple):
    """A tunnel with both ends, as stored and as their units read now."""

    tunnel_id: str
    relationship: str
    score: float | None
    method: str
    source_bank_id: str
    source_unit_id: str
    source_text: str
    target_bank_id: str
    target_unit_id: str
    target_text: str
    room: str


class TunnelPlan(NamedTuple):
    """What to dig (frames.TUNNELS plus ``tunnel_id``), what to fill in, and how many stand as they are."""

    new: pl.DataFrame
    gone: list[str]
    n_kept: int


def tunnel_id(unit_a: str, unit_b: str, relationship: str) -> str:
    """The same id for a pair in either direction."""
    low, high = sorted((unit_a, unit_b))
    return str(uuid5(NAMESPACE_URL, f"rcll:tunnel:{low}:{high}:{relationship}"))


def plan_tunnels(conn: Connection, tenant: Tenant, found: pl.DataFrame, banks: Sequence[str] | None) -> TunnelPlan:
    """Compare found tunnels with the automatic ones that touch these banks (None: all).

    Args:
        conn: an open connection.
        tenant: whose tunnels; nothing crosses it.
        found: frames.TUNNELS, everything that should stand between these banks and others.
        banks: the run's banks.
    """
    require_schema(found, TUNNELS, "tunnels")
    ends = zip(found["source_unit_id"], found["target_unit_id"], found["relationship"], strict=True)
    wanted = found.with_columns(tunnel_id=pl.Series([tunnel_id(*end) for end in ends], dtype=pl.String))
    present: set[str] = set()
    if tenant.migrated:
        values = {"banks": None if banks is None else list(banks)}
        rows = conn.execute(query("select_auto_tunnels", **tenant.names()), values).fetchall()
        present = {row[0] for row in rows}
    gone = sorted(present - set(wanted["tunnel_id"]))
    new = wanted.filter(~pl.col("tunnel_id").is_in(sorted(present)))
    return TunnelPlan(new, gone, len(present) - len(gone))


def dig_tunnels(database: Database, tenant: Tenant, plan: TunnelPlan, lease: Lease) -> tuple[int, int]:
    """Write the plan in short transactions; returns how many tunnels were dug and filled in."""
    held = sorted(lease.tokens)
    n_new = n_gone = 0
    with database.connect() as conn:
        for start in range(0, len(plan.gone), BATCH_ROWS):
            ids = {"tunnel_ids": plan.gone[start : start + BATCH_ROWS]}
            with conn.transaction():
                lease.check(conn, tenant, held)
                n_gone += len(conn.execute(query("delete_tunnels", **tenant.names()), ids).fetchall())
        for batch in plan.new.iter_slices(BATCH_ROWS):
            values = batch.to_dict(as_series=False) | {"run_id": lease.run_id}
            with conn.transaction():
                lease.check(conn, tenant, held)
                n_new += len(conn.execute(query("insert_tunnels", **tenant.names()), values).fetchall())
    return n_new, n_gone


def filed_units(conn: Connection, tenant: Tenant, banks: Sequence[str]) -> pl.DataFrame:
    """(unit_id, bank_id, room) of units that earlier runs filed anywhere but in the fallback room."""
    values = {"banks": list(banks), "fallback": DEFAULT_ROOM}
    rows = conn.execute(query("select_filed_units", **tenant.names()), values).fetchall()
    return pl.DataFrame(rows, schema={"unit_id": pl.String, "bank_id": pl.String, "room": pl.String}, orient="row")


def list_tunnels(
    conn: Connection, tenant: Tenant, *, banks: Sequence[str] | None = None, limit: int = 100
) -> list[Tunnel]:
    """Tunnels that touch these banks (None: all), the strongest first."""
    values = {"banks": None if banks is None else list(banks), "limit": limit}
    with conn.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(query("list_tunnels", **tenant.names()), values).fetchall()
    return [Tunnel(**row) for row in rows]


def count_tunnels(conn: Connection, tenant: Tenant) -> dict[tuple[str, str], int]:
    """Tunnels per unordered pair of banks."""
    return {(a, b): n for a, b, n in conn.execute(query("count_tunnels", **tenant.names())).fetchall()}
