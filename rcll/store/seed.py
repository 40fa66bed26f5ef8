"""Makes a legacy bank set: tables as an old Hindsight had them, without rooms, and units in them."""

from collections.abc import Mapping

import numpy as np
import polars as pl
from psycopg import sql

from rcll.errors import DatabaseError, InputError
from rcll.resources import sql_dir
from rcll.store.connect import Connection, Database
from rcll.store.sql import query, trusted


def load_legacy(
    database: Database, *, banks: Mapping[str, str], units: pl.DataFrame, embeddings: np.ndarray, schema: str
) -> None:
    """Create the tables and load the units in one transaction: all of it or nothing.

    Args:
        database: where to; its schema must not hold a bank set yet.
        banks: name of each bank by its id.
        units: columns unit_id, bank_id, text, context, fact_type, occurred_at, created_at, tags.
        embeddings: (n_units, n_dims), row i for unit i.
        schema: PostgreSQL schema, made if it is missing.

    Raises:
        InputError: units and embeddings differ in number.
        DatabaseError: the schema holds such tables already.
    """
    if len(embeddings) != units.height:
        raise InputError(f"{units.height} units came with {len(embeddings)} embeddings; expected one for each unit")
    with database.connect() as conn, conn.transaction():
        conn.execute(query("create_extension", extension=sql.Identifier("vector")))
        _refuse_taken(conn, schema)
        names = _names(conn, schema, n_dims=embeddings.shape[1])
        conn.execute(trusted((sql_dir() / "demo" / "legacy.sql").read_text(encoding="utf-8"), **names))
        with conn.cursor() as cursor:
            cursor.executemany(query("seed_bank", **names), [{"bank_id": b, "name": n} for b, n in banks.items()])
            rows = zip(units.iter_rows(named=True), embeddings, strict=True)
            cursor.executemany(query("seed_unit", **names), [row | {"embedding": _literal(v)} for row, v in rows])
        _build_indexes(conn, names, banks)
    with database.connect() as conn:
        conn.execute(query("seed_analyze", **names))


def _refuse_taken(conn: Connection, schema: str) -> None:
    taken = [name for (name,) in conn.execute(query("seed_taken"), {"schema": schema})]
    if taken:
        raise DatabaseError(
            f"schema '{schema}' of database '{conn.info.dbname}' holds {', '.join(taken)} already; "
            "expected an empty schema; take a fresh database"
        )


def _names(conn: Connection, schema: str, *, n_dims: int) -> dict[str, sql.Composable]:
    row = conn.execute(query("vector_schema")).fetchone()
    assert row is not None  # the extension was created in this transaction
    vector_schema = sql.Identifier(row[0])
    return {
        "schema": sql.Identifier(schema),
        "banks": sql.Identifier(schema, "banks"),
        "units": sql.Identifier(schema, "memory_units"),
        "archive": sql.Identifier(schema, "invalidated_memory_units"),
        "vector_schema": vector_schema,
        "vector_type": sql.SQL("{}.vector({})").format(vector_schema, sql.Literal(n_dims)),
    }


def _build_indexes(conn: Connection, names: Mapping[str, sql.Composable], banks: Mapping[str, str]) -> None:
    """After the load, as pgvector advises: an HNSW graph is built faster than it grows."""
    conn.execute(query("seed_indexes", **names))
    for bank_id in banks:
        literals = {"bank_id": sql.Literal(bank_id), "fact_type": sql.Literal("world")}
        conn.execute(query("seed_vector_index", **names, **literals))


def _literal(vector: np.ndarray) -> str:
    """The text form of a vector; nine digits give every float32 back."""
    return f"[{','.join(f'{x:.9g}' for x in vector)}]"
