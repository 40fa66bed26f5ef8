"""Tunnels in the database: rcll keeps its own equal to what it finds, and leaves the rest alone."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

import polars as pl
from psycopg.rows import TupleRow, dict_row

from rcll.frames import DEFAULT_ROOM, TUNNELS, require_schema
from rcll.store.catalog import Tenant
from rcll.store.connect import Connection, Database
from rcll.store.lease import Lease
from rcll.store.sql import query

BATCH_ROWS = 500


class Tunnel(NamedTuple):
    """A tunnel with both ends, as stored and as their units read now.

    ``method`` is auto or explicit. ``evidence`` tells why it was found: rule, similarity, rank, terms.
    """

    tunnel_id: str
    relationship: str | None
    score: float | None
    method: str
    evidence: dict[str, Any] | None
    source_bank_id: str
    source_unit_id: str
    source_text: str
    target_bank_id: str
    target_unit_id: str
    target_text: str
    room: str


class Neighbour(NamedTuple):
    """A unit of another bank, one tunnel away, and the way there; ``direction`` is out or in."""

    near_unit_id: str
    near_bank_id: str
    tunnel_id: str
    direction: str
    relationship: str | None
    score: float | None
    method: str
    evidence: dict[str, Any] | None
    unit_id: str
    bank_id: str
    text: str | None
    room: str | None
    hall: str | None
    layer: str | None

    @property
    def path(self) -> tuple[str, str, str]:
        """Near unit, tunnel, far unit."""
        return self.near_unit_id, self.tunnel_id, self.unit_id


class TunnelPlan(NamedTuple):
    """What to dig and what to bring up to date (frames.TUNNELS plus ``tunnel_id``), what to fill in, what stands."""

    new: pl.DataFrame
    changed: pl.DataFrame
    gone: list[str]
    n_kept: int


def tunnel_id(unit_a: str, unit_b: str, relationship: str) -> str:
    """The same id for a pair in either direction."""
    low, high = sorted((unit_a, unit_b))
    return str(uuid5(NAMESPACE_URL, f"rcll:tunnel:{low}:{high}:{relationship}"))


def with_ids(found: pl.DataFrame) -> pl.DataFrame:
    """Found tunnels (frames.TUNNELS) with their ``tunnel_id``."""
    require_schema(found, TUNNELS, "tunnels")
    ends = zip(found["source_unit_id"], found["target_unit_id"], found["relationship"], strict=True)
    return found.with_columns(tunnel_id=pl.Series([tunnel_id(*end) for end in ends], dtype=pl.String))


def plan_tunnels(conn: Connection, tenant: Tenant, found: pl.DataFrame, banks: Sequence[str] | None) -> TunnelPlan:
    """Compare found tunnels with the automatic ones that touch these banks (None: all).

    Args:
        conn: an open connection.
        tenant: whose tunnels; nothing crosses it.
        found: frames.TUNNELS, everything that should stand between these banks and others.
        banks: the run's banks.
    """
    wanted = with_ids(found)
    rows: list[TupleRow] = []
    if tenant.migrated:
        values = {"banks": None if banks is None else list(banks)}
        rows = conn.execute(query("select_tunnel_states", **tenant.names()), values).fetchall()
    present = {row[0]: _state(*row[2:]) for row in rows if row[1] == "auto"}
    columns = ("tunnel_id", "score", "evidence", "source_bank_id", "target_bank_id")
    states = {row[0]: _state(row[1], json.loads(row[2]), *row[3:]) for row in wanted.select(columns).iter_rows()}
    gone = sorted(present.keys() - states.keys())
    changed = [found for found, state in states.items() if found in present and present[found] != state]
    new = wanted.filter(~pl.col("tunnel_id").is_in([row[0] for row in rows]))
    kept = len(present) - len(gone) - len(changed)
    return TunnelPlan(new, wanted.filter(pl.col("tunnel_id").is_in(changed)), gone, kept)


_State = tuple[float | None, dict[str, Any] | None, str | None, str | None]


def _state(score: float | None, evidence: dict[str, Any] | None, source: str | None, target: str | None) -> _State:
    """What may change about a tunnel; the score as the column of type real keeps it."""
    return None if score is None else round(score, 4), evidence, source, target


def dig_tunnels(database: Database, tenant: Tenant, plan: TunnelPlan, lease: Lease) -> tuple[int, int, int]:
    """Write the plan in short transactions; returns how many tunnels were dug, brought up to date and filled in."""
    held = sorted(lease.tokens)
    n_new = n_changed = n_gone = 0
    with database.connect() as conn:
        for start in range(0, len(plan.gone), BATCH_ROWS):
            ids = {"tunnel_ids": plan.gone[start : start + BATCH_ROWS]}
            with conn.transaction():
                lease.check(conn, tenant, held)
                n_gone += len(conn.execute(query("delete_tunnels", **tenant.names()), ids).fetchall())
        for batch in plan.new.iter_slices(BATCH_ROWS):
            with conn.transaction():
                lease.check(conn, tenant, held)
                n_new += insert_tunnels(conn, tenant, batch, lease.run_id)
        for batch in plan.changed.iter_slices(BATCH_ROWS):
            with conn.transaction():
                lease.check(conn, tenant, held)
                values = batch.to_dict(as_series=False)
                n_changed += len(conn.execute(query("update_tunnels", **tenant.names()), values).fetchall())
    return n_new, n_changed, n_gone


def filed_units(conn: Connection, tenant: Tenant, banks: Sequence[str]) -> pl.DataFrame:
    """(unit_id, bank_id, room) of units that earlier runs filed anywhere but in the fallback room."""
    values = {"banks": list(banks), "fallback": DEFAULT_ROOM}
    rows = conn.execute(query("select_filed_units", **tenant.names()), values).fetchall()
    return pl.DataFrame(rows, schema={"unit_id": pl.String, "bank_id": pl.String, "room": pl.String}, orient="row")


def list_tunnels(
    conn: Connection,
    tenant: Tenant,
    *,
    banks: Sequence[str] | None = None,
    room: str | None = None,
    relationship: str | None = None,
    tunnel_ids: Sequence[str] | None = None,
    limit: int = 100,
) -> list[Tunnel]:
    """Tunnels that touch these banks and meet the other conditions (None: all), explicit ones first, then by score."""
    values = {"banks": None if banks is None else list(banks), "room": room, "relationship": relationship}
    values |= {"tunnel_ids": None if tunnel_ids is None else list(tunnel_ids), "limit": limit}
    with conn.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(query("list_tunnels", **tenant.names()), values).fetchall()
    return [Tunnel(**row) for row in rows]


def tunnel_neighbours(
    conn: Connection, tenant: Tenant, unit_ids: Sequence[str], *, banks: Sequence[str] | None, per_unit: int = 10
) -> list[Neighbour]:
    """What some units lead to through one tunnel, whichever end they are.

    Args:
        conn: an open connection.
        tenant: whose units.
        unit_ids: where to start; the answer keeps their order.
        banks: banks into which the caller may read; None for any.
        per_unit: far units for each near one, at most.
    """
    values = {"unit_ids": list(unit_ids), "banks": None if banks is None else list(banks), "per_unit": per_unit}
    with conn.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(query("select_neighbours", **tenant.names()), values).fetchall()
    return [Neighbour(**row) for row in rows]


def banks_of_units(conn: Connection, tenant: Tenant, unit_ids: Sequence[str]) -> dict[str, str]:
    """Bank of each of the units that exist."""
    return dict(conn.execute(query("select_ends", **tenant.names()), {"unit_ids": list(unit_ids)}).fetchall())


def units_in_room(conn: Connection, tenant: Tenant, banks: Sequence[str], room: str) -> list[str]:
    """Ids of the units of some banks that stand in a room, sorted."""
    rows = conn.execute(query("select_room_units", **tenant.names()), {"banks": list(banks), "room": room}).fetchall()
    return [unit_id for (unit_id,) in rows]


def insert_tunnels(conn: Connection, tenant: Tenant, tunnels: pl.DataFrame, run_id: UUID | None) -> int:
    """Write found tunnels (frames.TUNNELS plus ``tunnel_id``); returns how many there were not before."""
    values = tunnels.to_dict(as_series=False) | {"run_id": run_id}
    return len(conn.execute(query("insert_tunnels", **tenant.names()), values).fetchall())


def match_tunnels(conn: Connection, tenant: Tenant, bounds: tuple[str, str]) -> list[str]:
    """Ids of up to three tunnels between two ids, those that wait for a missing unit among them."""
    values = {"low": bounds[0], "high": bounds[1]}
    return [found for (found,) in conn.execute(query("match_tunnels", **tenant.names()), values).fetchall()]


def remove_tunnels(conn: Connection, tenant: Tenant, tunnel_ids: Sequence[str]) -> list[str]:
    """Delete tunnels, however they came; returns the ids that there were."""
    rows = conn.execute(query("remove_tunnels", **tenant.names()), {"tunnel_ids": list(tunnel_ids)}).fetchall()
    return [found for (found,) in rows]


def count_tunnels(conn: Connection, tenant: Tenant) -> dict[tuple[str, str], int]:
    """Tunnels per unordered pair of banks."""
    return {(a, b): n for a, b, n in conn.execute(query("count_tunnels", **tenant.names())).fetchall()}
