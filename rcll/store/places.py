"""Finds where units lie in the table: page, and how many bytes their tuple takes."""

import io
from collections.abc import Sequence

import polars as pl
from psycopg import sql

from rcll.stages.rounds import PLACES
from rcll.store.catalog import Tenant
from rcll.store.connect import Connection
from rcll.store.sql import query

#: Ids of one statement: short enough that its snapshot hinders nobody.
CHUNK_ROWS = 10_000

#: A value of more than 2,000 bytes lies in TOAST; it must not be fetched to be measured.
_VARYING = "CASE WHEN pg_column_size(u.{column}) <= 2000 THEN u.{column} END"
_EXTERNAL = "coalesce(pg_column_size(u.{column}), 0)"


def units_name(conn: Connection, tenant: Tenant) -> str:
    """Qualified and quoted name of memory_units, as regclass reads it."""
    return sql.Identifier(tenant.schema, tenant.units).as_string(conn)


def locate_units(conn: Connection, tenant: Tenant, unit_ids: Sequence[str]) -> pl.DataFrame:
    """Page and tuple size of units.

    Args:
        conn: an open connection; each chunk is a statement of its own.
        tenant: whose units.
        unit_ids: which; those that are gone are left out.

    Returns:
        stages.rounds.PLACES, in no particular order.
    """
    rows = query("locate_tuples", **tenant.names(), **_sizes(conn, tenant))
    statement = sql.SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(rows)
    frames = [pl.DataFrame(schema=PLACES)]
    for start in range(0, len(unit_ids), CHUNK_ROWS):
        ids = {"unit_ids": list(unit_ids[start : start + CHUNK_ROWS])}
        with conn.cursor() as cursor, cursor.copy(statement, ids) as copy:
            stream = b"".join(bytes(chunk) for chunk in copy)
        if stream:
            frames.append(_parse(stream))
    return pl.concat(frames)


def _parse(stream: bytes) -> pl.DataFrame:
    """Read lines of id, "(page,number)", bytes."""
    schema = {"unit_id": pl.String, "place": pl.String, "tuple_bytes": pl.Int64}
    found = pl.read_csv(io.BytesIO(stream), has_header=False, schema=schema)
    block = pl.col("place").str.extract(r"^\((\d+),").cast(pl.Int64)
    return found.with_columns(block=block).select(PLACES.names())


def _sizes(conn: Connection, tenant: Tenant) -> dict[str, sql.Composable]:
    """The row less its external values, and what these take."""
    columns = conn.execute(query("tuple_columns"), {"units": units_name(conn, tenant)}).fetchall()
    rest: list[sql.Composable] = []
    external: list[sql.Composable] = [sql.Literal(0)]
    for name, is_varying, is_external in columns:
        shape = _EXTERNAL if is_external else _VARYING if is_varying else "u.{column}"
        (external if is_external else rest).append(sql.SQL(shape).format(column=sql.Identifier(name)))
    return {"columns": sql.SQL(", ").join(rest), "external_bytes": sql.SQL(" + ").join(external)}
