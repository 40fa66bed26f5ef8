"""Reads units out of a bank in short transactions: keyset pages to Parquet, embeddings by binary COPY.

No snapshot outlives a page: an old snapshot anywhere in the cluster keeps dead tuples alive, spoils HOT
updates and makes Hindsight's bank deletion wait.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
from psycopg import sql
from psycopg.abc import Buffer
from psycopg.rows import TupleRow, tuple_row
from upath import UPath

from rcll.errors import DatabaseError
from rcll.frames import DEFAULT_HALL, DEFAULT_LAYER, DEFAULT_ROOM, UNITS
from rcll.store.catalog import EmbeddingType, Tenant
from rcll.store.connect import Connection, Database
from rcll.store.oneline import one_line_errors
from rcll.store.parts import write_part
from rcll.store.places import units_name
from rcll.store.sql import query

_FIRST = "00000000-0000-0000-0000-000000000000"
PAGE_ROWS = 5_000
#: Heap pages that one statement reads: about as many rows.
HEAP_PAGES = 500
#: Rows of one Parquet part: large enough for the regex engine's batches, small enough for flat memory.
PART_ROWS = 100_000
#: Vectors of one statement: about a second, in which vectors that lie together are read together.
VECTORS_ROWS = 100_000
#: Bytes of COPY that are decoded at once.
BUFFER_BYTES = 4_000_000

#: Members of a room as the closet and tunnel stages take them, before they select their columns.
MEMBERS = pl.Schema(
    {
        "unit_id": pl.String,
        "bank_id": pl.String,
        "hall": pl.String,
        "text": pl.String,
        "text_hash": pl.String,
        "happened_at": pl.Datetime("us", "UTC"),
    }
)


def count_units(conn: Connection, tenant: Tenant, banks: Sequence[str] | None = None) -> dict[str, int]:
    """Units per bank, banks sorted by name; ``None`` means all banks."""
    rows = conn.execute(query("count_units", **tenant.names()), {"banks": _list(banks)}).fetchall()
    return dict(rows)


def list_banks(conn: Connection, tenant: Tenant) -> list[str]:
    """Names of all banks of the tenant, with or without units, sorted."""
    return [bank for (bank,) in conn.execute(query("list_banks", **tenant.names())).fetchall()]


def extract_units(
    database: Database,
    tenant: Tenant,
    *,
    banks: Sequence[str] | None,
    taxonomy_hash: str,
    folder: UPath,
    all_texts: bool = False,
    only_unfiled: bool = False,
) -> list[UPath]:
    """Write the units of some banks to Parquet parts in frames.UNITS, sorted by unit_id.

    Args:
        database: where the tenant lives.
        tenant: whose units.
        banks: names, or None for all.
        taxonomy_hash: units whose ledger row bears it, and whose text is the same, come without text.
        folder: where the parts go; made if missing.
        all_texts: fetch every text, also where the ledger knows the label.
        only_unfiled: leave out units whose ledger row bears ``taxonomy_hash``; only of a migrated tenant.

    Returns:
        Paths of parts of at most PART_ROWS units; none where the banks are empty.
    """
    parts: list[UPath] = []
    parameters = {"banks": _list(banks), "taxonomy_hash": taxonomy_hash, "all_texts": all_texts}
    for rows in _batched_rows(_unit_pages(database, _page_query(tenant, only_unfiled=only_unfiled), parameters)):
        part = pl.DataFrame(rows, schema=UNITS, orient="row")
        parts.append(write_part(part, folder / f"units-{len(parts):05d}.parquet"))
    return parts


def count_unfiled(conn: Connection, tenant: Tenant, banks: Sequence[str] | None, taxonomy_hash: str) -> tuple[int, int]:
    """Units of a migrated tenant, and how many of them the rules of that hash have not filed."""
    values = {"banks": _list(banks), "taxonomy_hash": taxonomy_hash}
    row = conn.execute(query("count_unfiled", **tenant.names()), values).fetchone()
    assert row is not None
    return row[0], row[1]


def count_pages(conn: Connection, tenant: Tenant) -> int:
    """Heap pages of memory_units."""
    row = conn.execute(query("heap_pages"), {"units": units_name(conn, tenant)}).fetchone()
    assert row is not None
    return row[0]


def extract_pages(
    database: Database,
    tenant: Tenant,
    *,
    banks: Sequence[str] | None,
    taxonomy_hash: str,
    pages: tuple[int, int],
    path: UPath,
) -> UPath:
    """Write the units that lie on heap pages first to last, the last left out, to one part; sorted by unit_id.

    A unit that moves meanwhile may be met twice, in two parts, or not at all; see walk.backfill.
    """
    chosen = query("units_of_pages")
    statement = query("select_units_page", **tenant.names(), chosen=chosen)
    values = {"banks": _list(banks), "taxonomy_hash": taxonomy_hash, "all_texts": False}
    rows: list[TupleRow] = []
    with one_line_errors("reading units"), database.connect() as conn:
        for first in range(*pages, HEAP_PAGES):
            ends = {"first": f"({first},0)", "last": f"({min(first + HEAP_PAGES, pages[1])},0)"}
            rows += conn.execute(statement, values | ends).fetchall()
    units = pl.DataFrame(rows, schema=UNITS, orient="row")
    return write_part(units.unique("unit_id", keep="last", maintain_order=True).sort("unit_id"), path)


def _unit_pages(database: Database, statement: sql.Composed, parameters: dict[str, Any]) -> Iterator[list[TupleRow]]:
    after = _FIRST
    with (
        one_line_errors("reading units"),
        database.connect() as conn,
        conn.cursor(row_factory=tuple_row) as cursor,
    ):
        while True:
            rows = cursor.execute(statement, parameters | {"after": after, "limit": PAGE_ROWS}).fetchall()
            if rows:
                yield rows
            if len(rows) < PAGE_ROWS:
                return
            after = rows[-1][0]


def _page_query(tenant: Tenant, *, only_unfiled: bool) -> sql.Composed:
    if tenant.migrated:
        chosen = query("unfiled_units_after" if only_unfiled else "units_after")
        return query("select_units_page", **tenant.names(), chosen=chosen)
    return query("select_bare_units_page", **tenant.names(), **label_columns(tenant))


def label_columns(tenant: Tenant) -> dict[str, sql.Composable]:
    """The stored labels as text; before the migration the defaults that the columns will get."""
    if tenant.has_labels:
        return {field: sql.SQL("u.{}::text").format(sql.Identifier(field)) for field in ("room", "hall", "layer")}
    defaults = {"room": DEFAULT_ROOM, "hall": DEFAULT_HALL, "layer": str(DEFAULT_LAYER)}
    return {field: sql.SQL("{}::text").format(sql.Literal(value)) for field, value in defaults.items()}


def _batched_rows(pages: Iterable[list[TupleRow]]) -> Iterator[list[TupleRow]]:
    batch: list[TupleRow] = []
    for page in pages:
        batch += page
        if len(batch) >= PART_ROWS:
            yield batch
            batch = []
    if batch:
        yield batch


def extract_members(
    conn: Connection, tenant: Tenant, unit_ids: Sequence[str], *, room: str | None = None
) -> tuple[pl.DataFrame, np.ndarray]:
    """Texts, dates and embeddings of given units.

    Args:
        conn: an open connection.
        tenant: whose units.
        unit_ids: which, any order.
        room: leave out units that no longer stand in this room; None takes all.

    Returns:
        MEMBERS sorted by unit_id, and a float32 array (n_units, n_dims), NaN where a unit has no embedding.
    """
    statement = query(
        "select_members",
        **tenant.names(),
        hall=label_columns(tenant)["hall"],
        in_room=sql.SQL("true" if room is None else "u.room = %(room)s"),
        happened_at=happened_at(tenant.date_columns),
    )
    frames = [
        pl.DataFrame(conn.execute(statement, {"unit_ids": ids, "room": room}).fetchall(), schema=MEMBERS, orient="row")
        for ids in _chunks(sorted(unit_ids))
    ]
    members = pl.concat(frames) if frames else pl.DataFrame(schema=MEMBERS)
    return members, extract_embeddings(conn, tenant, members["unit_id"].to_list())


def extract_embeddings(conn: Connection, tenant: Tenant, unit_ids: Sequence[str]) -> np.ndarray:
    """Embeddings as a float32 array (n_units, n_dims) in the order of the ids, NaN where there is none.

    Beside the array itself a few megabytes are used, however many units there are.

    Raises:
        DatabaseError: a unit's vector has another length than the column promises.
    """
    kind = tenant.embedding
    dims = (kind.dims or 0) if kind else 0
    found = np.full((len(unit_ids), dims), np.nan, dtype=np.float32)
    if kind is None or not dims:
        return found
    statement = sql.SQL("COPY ({}) TO STDOUT (FORMAT binary)").format(query("copy_embeddings", **tenant.names()))
    record = _vector_record(kind)
    start = 0
    for ids in _chunks(unit_ids, VECTORS_ROWS):
        with conn.cursor() as cursor, cursor.copy(statement, {"unit_ids": ids}) as copy:
            _fill(found[start : start + len(ids)], copy, record)
        start += len(ids)
    return found


def _vector_record(kind: EmbeddingType) -> np.dtype[np.void]:
    """One row of a binary COPY of (bigint, vector or halfvec), of fixed size."""
    number = ">f2" if kind.type == "halfvec" else ">f4"
    place = [("n_fields", ">i2"), ("place_bytes", ">i4"), ("place", ">i8"), ("vector_bytes", ">i4")]
    return np.dtype([*place, ("dims", ">i2"), ("unused", ">i2"), ("vector", number, (kind.dims,))])


def _fill(found: np.ndarray, stream: Iterable[Buffer], record: np.dtype[np.void]) -> None:
    """Decode a binary COPY as it comes: a header, fixed-size records, a two-byte trailer."""
    buffer, header, trailer = bytearray(), 19, 2
    for chunk in stream:
        buffer += chunk
        if len(buffer) >= BUFFER_BYTES:
            header = _decode(found, buffer, record, header)
    _decode(found, buffer, record, header)
    if len(buffer) != trailer:
        raise _mixed_lengths(found)


def _decode(found: np.ndarray, buffer: bytearray, record: np.dtype[np.void], header: int) -> int:
    """Take all whole records out of the buffer; returns the bytes of header that are still to come."""
    del buffer[:header]
    records = np.frombuffer(buffer, dtype=record, count=len(buffer) // record.itemsize)
    if (records["dims"] != found.shape[1]).any() or (records["n_fields"] != 2).any():  # noqa: PLR2004 - two columns
        raise _mixed_lengths(found)
    found[records["place"] - 1] = records["vector"]
    n_bytes = records.nbytes
    del records  # a view forbids the buffer to shrink
    del buffer[:n_bytes]
    return 0


def _mixed_lengths(found: np.ndarray) -> DatabaseError:
    return DatabaseError(
        f"embeddings of mixed length; expected {found.shape[1]} dimensions in every unit; run rcll doctor"
    )


def happened_at(date_columns: Sequence[str]) -> sql.Composable:
    """When a unit's matter happened: the first of these dates that Python can hold (no infinities)."""
    dates = [
        sql.SQL("CASE WHEN u.{0} BETWEEN '0001-01-02' AND '9999-12-30' THEN u.{0}::timestamptz END").format(
            sql.Identifier(column)
        )
        for column in date_columns
    ]
    return sql.SQL("coalesce({}, NULL::timestamptz)").format(sql.SQL(", ").join(dates or [sql.SQL("NULL")]))


def _chunks(ids: Sequence[str], size: int = 10_000) -> Iterator[list[str]]:
    return (list(ids[start : start + size]) for start in range(0, len(ids), size))


def _list(banks: Sequence[str] | None) -> list[str] | None:
    return None if banks is None else list(banks)
