"""Reads whole banks for a snapshot: one bounded, read-only REPEATABLE READ transaction for a few of them at a time.

While it is open the server keeps dead tuples for it, so it holds nothing longer than the COPY takes, and the caller
records how long that was.
"""

import io
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import polars as pl
from psycopg import IsolationLevel, sql
from psycopg.abc import Buffer

from rcll.store.catalog import Tenant
from rcll.store.connect import Connection, Database
from rcll.store.extract import happened_at, label_columns
from rcll.store.oneline import one_line_errors
from rcll.store.sql import query
from rcll.tables import TABLES

T = TypeVar("T")
R = TypeVar("R")

#: Seconds that one look at a few banks may take; the server ends a statement that takes longer.
MAX_SECONDS = 900
#: What is parsed, compressed and written at once: large enough for Parquet, small enough for flat memory.
PART_ROWS = 100_000
PART_BYTES = 32_000_000

#: Tables of the database from which a table of the snapshot is read; where one is missing, it stays empty.
_NEEDS = {
    "closets": ("closets", "closet_sources"),
    "closet_sources": ("closets", "closet_sources"),
    "tunnels": ("tunnels",),
    "changes": ("changes",),
    "runs": ("runs",),
}

#: What has to be equal in texts that read alike: letters and marks of any script.
_TELLING = r"[^\p{L}\p{M}]+"


@contextmanager
def frozen(database: Database) -> Generator[Connection]:
    """Open a connection whose every statement sees the database as it is now, read-only, for a bounded time."""
    with one_line_errors("the snapshot"), database.connect() as conn:
        conn.isolation_level = IsolationLevel.REPEATABLE_READ
        conn.read_only = True
        with conn.transaction():
            conn.execute(query("bound_export"), {"seconds": MAX_SECONDS})
            yield conn


def export_table(
    conn: Connection, tenant: Tenant, table: str, banks: Sequence[str], *, texts: bool
) -> Iterator[pl.DataFrame]:
    """Rows of a table that belong to some banks.

    Args:
        conn: as :func:`frozen` gives it.
        tenant: whose banks.
        table: units, closets, closet_sources, tunnels, changes or runs, which has no banks.
        banks: names.
        texts: whether texts of memories, and of closets, come along.

    Yields:
        Frames in tables.TABLES[table], each of at most PART_ROWS rows and about PART_BYTES.
    """
    if table != "units" and not tenant.has(*_NEEDS[table]):
        return
    schema = TABLES[table]
    statement = sql.SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(_statement(tenant, table, texts=texts))
    with conn.cursor() as cursor, cursor.copy(statement, {"banks": list(banks), "texts": texts}) as copy:
        yield from one_behind(partial(_parse, schema=schema, texts=texts), _parts(copy))


def one_behind(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Apply work to each item in a thread of its own while the next item is fetched; order stays, two are held.

    The server goes on computing rows while the last ones are parsed, compressed and written: both sides are at work all
    the time, and the state of the database is held for less long.
    """
    with ThreadPoolExecutor(1) as thread:
        waiting: Future[R] | None = None
        for item in items:
            ready, waiting = waiting, thread.submit(work, item)
            if ready is not None:
                yield ready.result()
        if waiting is not None:
            yield waiting.result()


def _statement(tenant: Tenant, table: str, *, texts: bool) -> sql.Composed:
    if table != "units":
        return query(f"export_{table}", **tenant.names())
    columns: dict[str, Any] = {
        "shown_text": sql.SQL("u.{}").format(sql.Identifier(tenant.text_column)) if texts else sql.SQL("NULL"),
        "happened_at": happened_at(tenant.date_columns),
        "created_at": happened_at([name for name in tenant.date_columns if name == "created_at"]),
    }
    if tenant.has("ledger"):
        return query("export_units", **tenant.names(), **columns)
    return query("export_bare_units", **tenant.names(), **columns, **label_columns(tenant))


def _parts(copy: Iterable[Buffer]) -> Iterator[bytes]:
    """Join the rows of a COPY to parts; libpq hands out whole rows."""
    part = bytearray()
    n_rows = 0
    for row in copy:
        part += row
        n_rows += 1
        if n_rows == PART_ROWS or len(part) >= PART_BYTES:
            yield bytes(part)
            part.clear()
            n_rows = 0
    if part:
        yield bytes(part)


def _parse(lines: bytes, schema: pl.Schema, *, texts: bool) -> pl.DataFrame:
    """Read CSV as PostgreSQL writes it: an empty field is NULL, a quoted one is an empty text."""
    wire = {name: _wire_type(dtype) for name, dtype in schema.items() if name != "text_key"}
    rows = pl.read_csv(io.BytesIO(lines), has_header=False, schema=wire, infer_schema=False)
    columns = [_from_wire(name, dtype) for name, dtype in schema.items() if name != "text_key"]
    frame = rows.select(columns)
    if "text_key" in schema:
        frame = frame.with_columns(text_key=_text_key() if texts else pl.lit(None, pl.UInt64))
    return frame


def _wire_type(dtype: pl.DataType) -> pl.DataType:
    if isinstance(dtype, pl.Boolean):
        return pl.String()
    return pl.Int64() if isinstance(dtype, pl.Datetime) else dtype


def _from_wire(name: str, dtype: pl.DataType) -> pl.Expr:
    column = pl.col(name)
    if isinstance(dtype, pl.Boolean):
        return column == "t"
    if isinstance(dtype, pl.Datetime):
        return pl.from_epoch(column, "us").alias(name)
    return column


def _text_key() -> pl.Expr:
    letters = pl.col("text").str.to_lowercase().str.replace_all(_TELLING, "")
    return pl.when(letters != "").then(letters.hash(seed=0))
