"""Reads the facts that rcll doctor judges; nothing is written, no fact takes longer than one pass over the units."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import sql

from rcll.errors import MigrationError
from rcll.store.catalog import Tenant
from rcll.store.checks import run_checks
from rcll.store.connect import Connection, Database
from rcll.store.horizon import OLD_SECONDS, OLD_TRANSACTIONS
from rcll.store.migrate import pending
from rcll.store.oneline import one_line_errors
from rcll.store.places import units_name
from rcll.store.sql import query

#: A text of more bytes is a pasted log or file.
HUGE_BYTES = 100_000
#: Vectors of a bank from which on a search without an index is slow.
INDEXED_UNITS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of one tenant.

    ``dims`` maps a vector's length to units, None to those without; ``rooms`` and ``halls`` count units;
    ``offences`` counts the rows that each of sql/checks returns; ``refusal`` is what keeps migrations from being read.
    """

    schema: str
    kind: str
    migrated: bool
    postgresql: int
    pgvector: str
    pending: list[str]
    refusal: str | None
    n_units: int
    n_empty: int
    n_huge: int
    largest_bytes: int
    n_duplicates: int
    column_dims: int | None
    dims: dict[int | None, int]
    unindexed_banks: dict[str, int]
    n_ledger_orphans: int
    n_source_orphans: int
    n_tunnel_strangers: int
    rooms: dict[str | None, int]
    halls: dict[str | None, int]
    leases: list[tuple[str, str, datetime]]
    label_indexes: list[str]
    triggers: list[str]
    horizon: dict[str, float | None]
    offences: dict[str, int]


def read_facts(database: Database, tenant: Tenant) -> Facts:
    """Look at one tenant."""
    with one_line_errors("the examination"), database.connect() as conn:
        conn.read_only = True
        units = {"units": units_name(conn, tenant)}
        server = _row(conn, query("server_facts"))
        return Facts(
            schema=tenant.schema,
            kind=tenant.kind,
            migrated=tenant.migrated,
            postgresql=server["postgresql"],
            pgvector=server["vector_installed"],
            column_dims=tenant.embedding.dims if tenant.embedding else None,
            label_indexes=_column(conn, query("label_indexes"), units),
            triggers=_column(conn, query("doctor_triggers"), units),
            horizon=_pairs(conn, query("horizon_holders"), {"seconds": OLD_SECONDS, "transactions": OLD_TRANSACTIONS}),
            **_migrations(conn, tenant),
            **_row(conn, query("doctor_units", **tenant.names()), {"huge_bytes": HUGE_BYTES}),
            **_row(conn, query("doctor_duplicates", **tenant.names())),
            **_vectors(conn, tenant, units),
            **_labels(conn, tenant),
            **_own_tables(conn, tenant),
        )


def _migrations(conn: Connection, tenant: Tenant) -> dict[str, Any]:
    try:
        return {"pending": [each.name for each in pending(conn, tenant)], "refusal": None}
    except MigrationError as error:
        return {"pending": [], "refusal": str(error)}


def _vectors(conn: Connection, tenant: Tenant, units: dict[str, str]) -> dict[str, Any]:
    if tenant.embedding is None:
        return {"dims": {}, "unindexed_banks": {}}
    schema = {"vector_schema": sql.Identifier(tenant.embedding.extension_schema)}
    wanted = units | {"at_least": INDEXED_UNITS}
    return {
        "dims": _pairs(conn, query("doctor_embeddings", **tenant.names(), **schema)),
        "unindexed_banks": _pairs(conn, query("doctor_unindexed_banks", **tenant.names()), wanted),
    }


def _labels(conn: Connection, tenant: Tenant) -> dict[str, Any]:
    rooms: dict[str | None, int] = {}
    halls: dict[str | None, int] = {}
    if tenant.has_labels:
        for room, hall, n_units in conn.execute(query("doctor_rooms", **tenant.names())).fetchall():
            rooms[room] = rooms.get(room, 0) + n_units
            halls[hall] = halls.get(hall, 0) + n_units
    return {"rooms": rooms, "halls": halls}


def _own_tables(conn: Connection, tenant: Tenant) -> dict[str, Any]:
    """Orphans, leases and offences; nothing where the tenant has no tables of ours."""
    if not tenant.has("ledger", "closet_sources", "tunnels", "leases"):
        none = {"n_ledger_orphans": 0, "n_source_orphans": 0, "n_tunnel_strangers": 0}
        return none | {"leases": [], "offences": {}}
    not_archived = query("doctor_not_archived", **tenant.names()) if tenant.archive else sql.SQL("")
    orphans = _row(conn, query("doctor_orphans", **tenant.names(), not_archived=not_archived))
    return {
        "n_ledger_orphans": orphans["n_ledger"],
        "n_source_orphans": orphans["n_sources"],
        "n_tunnel_strangers": orphans["n_tunnels"],
        "leases": conn.execute(query("doctor_leases", **tenant.names())).fetchall(),
        "offences": {name: len(rows) for name, rows in run_checks(conn, tenant).items()},
    }


def _row(conn: Connection, statement: sql.Composed, values: dict[str, Any] | None = None) -> dict[str, Any]:
    cursor = conn.execute(statement, values)
    row = cursor.fetchone()
    assert row is not None
    return {column.name: value for column, value in zip(cursor.description or (), row, strict=True)}


def _pairs(conn: Connection, statement: sql.Composed, values: dict[str, Any] | None = None) -> dict[Any, Any]:
    return dict(conn.execute(statement, values).fetchall())


def _column(conn: Connection, statement: sql.Composed, values: dict[str, Any]) -> list[str]:
    return [name for (name,) in conn.execute(statement, values).fetchall()]
