"""DuckDB over snapshots: base tables, the named questions, and a lock that leaves nothing else within reach.

What can be read are the snapshot's own files; no other file, no network, no setting, no write. DuckDB enforces it
(external access off, configuration locked), and only single SELECTs are let through to it.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from rcll.analyst.layout import Snapshot, list_snapshots, table_files
from rcll.analyst.questions import load_questions
from rcll.analyst.stores import local_copy
from rcll.errors import InputError
from rcll.tables import TABLES

Connection = duckdb.DuckDBPyConnection

_TYPES: tuple[tuple[pl.DataType, str], ...] = (
    (pl.String(), "VARCHAR"),
    (pl.Int16(), "SMALLINT"),
    (pl.Int64(), "BIGINT"),
    (pl.UInt64(), "UBIGINT"),
    (pl.Float32(), "FLOAT"),
    (pl.Float64(), "DOUBLE"),
    (pl.Boolean(), "BOOLEAN"),
    (pl.Datetime("us"), "TIMESTAMP"),
    (pl.List(pl.Float32()), "FLOAT[]"),
)

_MANIFESTS = """
CREATE TABLE snapshots (snapshot_id VARCHAR, made_at TIMESTAMP, n_units BIGINT, kind VARCHAR, rcll_version VARCHAR,
                        has_texts BOOLEAN, has_embeddings BOOLEAN, seconds DOUBLE, longest_hold DOUBLE);
CREATE TABLE banks (bank_id VARCHAR, n_units BIGINT, read_at TIMESTAMP, seconds_held DOUBLE);
"""

#: Statements that only read; EXPLAIN ANALYZE runs what it explains, and the lock holds there too.
_READING = ("SELECT", "EXPLAIN")

_LOCK = (
    "SET temp_directory = ''",
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


@contextmanager
def open_snapshots(target: str, *, schema: str | None = None) -> Generator[Connection]:
    """Open DuckDB over the snapshots of one tenant, with every view and macro, locked.

    Args:
        target: folder or store of snapshots, or one snapshot.
        schema: which tenant; None where there is but one.

    Raises:
        InputError: no whole snapshot there, or one that cannot be read.
    """
    with local_copy(target) as folder:
        snapshots = list_snapshots(folder, schema)
        with duckdb.connect(":memory:") as connection:
            try:
                prepare(connection, snapshots)
            except duckdb.Error as error:
                raise InputError(
                    f"{target} cannot be read: {_first_lines(error)}; copy it again or make a new snapshot"
                ) from None
            lock(connection, [file for table in TABLES for file in table_files(snapshots, table)])
            yield connection


def save_views(snapshots: Sequence[Snapshot], file: Path) -> None:
    """Write a DuckDB file that holds the views and macros, and no data; it names the Parquet files by their paths.

    Raises:
        InputError: the file exists, or cannot be written.
    """
    if file.exists():
        raise InputError(f"{file} exists; expected a new file; remove it or name another")
    unfinished = file.with_name(f".{file.name}.unfinished")
    try:
        unfinished.unlink(missing_ok=True)
        with duckdb.connect(str(unfinished)) as connection:
            prepare(connection, snapshots)
            connection.execute("CHECKPOINT")  # closing would pass over a full disk in silence
        unfinished.rename(file)
    except (OSError, duckdb.Error) as error:
        reason = str(error).splitlines()[0][:200]
        raise InputError(f"{file} cannot be written: {reason}; expected a folder that can be written") from None
    finally:
        for left in (unfinished, unfinished.with_name(f"{unfinished.name}.wal")):
            left.unlink(missing_ok=True)


def prepare(connection: Connection, snapshots: Sequence[Snapshot]) -> None:
    """Create the base tables of the newest snapshot, those of all with ``_history``, and the questions."""
    connection.execute(_MANIFESTS)
    for each in snapshots:
        manifest = each.manifest
        row = (manifest.snapshot_id, manifest.made_at, manifest.tables.get("units", {}).get("n_rows", 0))
        row += (manifest.kind, manifest.rcll_version, manifest.has_texts, manifest.has_embeddings)
        row += (manifest.seconds, manifest.longest_hold)
        connection.execute(f"INSERT INTO snapshots VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608 - marks
    banks = snapshots[-1].manifest.banks
    if banks:
        rows = [(bank.bank_id, bank.n_units, bank.read_at, bank.seconds_held) for bank in banks]
        connection.executemany("INSERT INTO banks VALUES (?, ?, ?, ?)", rows)
    for table, columns in TABLES.items():
        connection.execute(f"CREATE VIEW {table} AS {_select(snapshots[-1:], table, columns)}")
        history = _select(snapshots, table, columns, with_snapshot=True)
        connection.execute(f"CREATE VIEW {table}_history AS {history}")
    for question in load_questions():
        connection.execute(question.sql)


def lock(connection: Connection, files: Sequence[Path]) -> None:
    """Leave these files readable and nothing else, for good."""
    paths = ", ".join(_literal(str(file)) for file in files)
    connection.execute(f"SET allowed_paths = [{paths}]")
    for statement in _LOCK:
        connection.execute(statement)


def ask(connection: Connection, sql: str) -> tuple[list[str], Connection]:
    """Run one reading statement; returns the names of its columns and the cursor to fetch rows from.

    Raises:
        InputError: not one statement, not one that only reads, or one that DuckDB refuses.
    """
    try:
        statements = duckdb.extract_statements(sql)
        kinds = [statement.type.name for statement in statements]
        if len(kinds) != 1 or kinds[0] not in _READING:
            found = " and ".join(kinds) or "nothing"
            raise InputError(
                f"found {found}; expected one SELECT, FROM, SHOW, DESCRIBE or EXPLAIN: snapshots are only read"
            )
        cursor = connection.execute(sql)
    except duckdb.Error as error:
        raise InputError(f"DuckDB refuses: {_first_lines(error)}") from None
    return [str(column[0]) for column in cursor.description or ()], cursor


def _select(snapshots: Sequence[Snapshot], table: str, columns: pl.Schema, *, with_snapshot: bool = False) -> str:
    """SELECT over a table's files; columns that an older snapshot lacks are NULL, and no file is an empty table."""
    typed = ", ".join(f"NULL::{_duck_type(dtype)} AS {name}" for name, dtype in columns.items())
    parts = [f"SELECT {typed}{', NULL::VARCHAR AS snapshot_id' if with_snapshot else ''} WHERE false"]
    for snapshot in snapshots:
        files = ", ".join(_literal(str(file)) for file in table_files([snapshot], table))
        if files:
            own = f", {_literal(snapshot.manifest.snapshot_id)} AS snapshot_id" if with_snapshot else ""
            source = f"read_parquet([{files}], union_by_name = true, hive_partitioning = false)"
            parts.append(f"SELECT *{own} FROM {source}")  # noqa: S608 - our own paths, quoted
    names = ", ".join([*columns, *(["snapshot_id"] if with_snapshot else [])])
    return f"SELECT {names} FROM ({' UNION ALL BY NAME '.join(parts)})"  # noqa: S608 - our own names


def _duck_type(dtype: pl.DataType) -> str:
    return next(name for known, name in _TYPES if known == dtype)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _first_lines(error: duckdb.Error) -> str:
    """What DuckDB says, on one line, less the picture of the statement."""
    lines = [line.strip() for line in str(error).split("\n\nLINE ")[0].splitlines() if line.strip()]
    return " ".join(lines)[:400]


def rows_of(cursor: Connection, limit: int | None = None) -> tuple[list[tuple[Any, ...]], bool]:
    """Rows of a result, at most ``limit``; and whether there are more."""
    if limit is None:
        return cursor.fetchall(), False
    rows = cursor.fetchmany(limit + 1)
    return rows[:limit], len(rows) > limit
