"""Brings a tenant's schema to what this version of rcll needs, and takes it back.

A migration is a file of sql/migrations. Its record says what it really added, found by comparing the catalog
before and after, so that the way back removes that and nothing that was there before. File and record are one
transaction: a killed migrator leaves nothing behind.
"""

import hashlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from rcll import __version__
from rcll.errors import Busy, DatabaseError, MigrationError, Transient
from rcll.frames import DEFAULT_HALL, DEFAULT_LAYER, DEFAULT_ROOM
from rcll.resources import sql_dir
from rcll.store.catalog import Tenant
from rcll.store.connect import Connection, Database
from rcll.store.locks import PATIENCE, lock_schema, try_patiently
from rcll.store.sql import query, trusted

_DEFAULTS = {"room": DEFAULT_ROOM, "hall": DEFAULT_HALL, "layer": str(DEFAULT_LAYER)}
_RECORDS, _LEDGER, _LEASES = "rcll_migrations", "rcll_labels", "rcll_leases"


@dataclass(frozen=True, slots=True)
class Migration:
    """A file of sql/migrations; ``checksum`` is the SHA-256 of its text."""

    name: str
    text: str
    checksum: str


@dataclass(frozen=True, slots=True)
class Losses:
    """What the way back removes.

    ``columns`` maps 'table.column' to the rows whose value is not the default, ``tables`` maps a table to its
    rows, ``explicit_labels`` counts units of which somebody set a field on purpose.
    """

    columns: dict[str, int]
    tables: dict[str, int]
    explicit_labels: int


@dataclass(frozen=True, slots=True)
class _Record:
    name: str
    checksum: str
    rcll_version: str
    added: dict[str, list[Any]]


def shipped() -> list[Migration]:
    """The migrations of this version of rcll, in order."""
    files = sorted((sql_dir() / "migrations").glob("[0-9]*.sql"))
    texts = {file.stem: file.read_text(encoding="utf-8") for file in files}
    return [Migration(name, text, hashlib.sha256(text.encode()).hexdigest()) for name, text in texts.items()]


def pending(conn: Connection, tenant: Tenant) -> list[Migration]:
    """Migrations that the tenant still lacks, in order; reads only.

    Raises:
        MigrationError: a recorded migration was edited or is not shipped, or a pending one is older than it.
    """
    files, records = shipped(), _records(conn, tenant)
    by_name = {migration.name: migration for migration in files}
    for record in records:
        migration = by_name.get(record.name)
        if migration is None:
            raise MigrationError(
                f"migration {record.name} is recorded in schema '{tenant.schema}', but not shipped with rcll "
                f"{__version__}; expected the files of rcll {record.rcll_version}; install that one"
            )
        if migration.checksum != record.checksum:
            raise MigrationError(
                f"migration {record.name} has checksum {migration.checksum[:12]}, recorded in schema "
                f"'{tenant.schema}' is {record.checksum[:12]}; expected an unchanged file; install rcll again"
            )
    applied = {record.name for record in records}
    missing = [migration for migration in files if migration.name not in applied]
    if records and missing and missing[0].name < records[-1].name:
        raise MigrationError(
            f"migration {missing[0].name} is not applied in schema '{tenant.schema}', but the later "
            f"{records[-1].name} is; expected them in order; install the rcll that made the records"
        )
    return missing


def migrate(database: Database, tenant: Tenant, *, patience: float = PATIENCE) -> list[Migration]:
    """Apply what is pending, each migration in a transaction of its own that waits for locks briefly.

    Safe beside a live server and beside another migrator. Where nothing is pending, nothing is written.

    Args:
        database: where the tenant lives.
        tenant: as read_tenants found it; read it again afterwards.
        patience: seconds to try for a lock, per migration.

    Returns:
        The migrations that this call applied, in order.

    Raises:
        MigrationError: see :func:`pending`; nothing is changed.
        Transient: somebody held a lock all the time; what was applied before stays, a second call goes on.
        DatabaseError: the role may not change the schema, or something of the same name is in the way.
    """
    with database.connect() as conn, _one_line(tenant, "migrated"):
        applied: list[Migration] = []
        for migration in pending(conn, tenant):
            attempt = _attempt(conn, tenant, migration)
            if try_patiently(database, tenant.schema, attempt, patience=patience):
                applied.append(migration)
        return applied


def rollback_preview(conn: Connection, tenant: Tenant) -> Losses:
    """Count what the way back would remove; empty where rcll has added nothing. Reads only."""
    records = _records(conn, tenant)
    columns = [(table, column) for record in records for table, column in record.added["columns"]]
    tables = [table for record in records for table in record.added["tables"]]
    existing = _objects(conn, tenant)
    present = [table for table in tables if table in {table for table, _ in existing}]
    return Losses(
        columns={f"{t}.{c}": _count_set(conn, tenant, t, c) for t, c in columns if (t, c) in existing},
        tables={table: _count(conn, query("count_rows", table=_in(tenant, table))) for table in present},
        explicit_labels=_count(conn, query("count_explicit", **tenant.names())) if _LEDGER in present else 0,
    )


def rollback(database: Database, tenant: Tenant, *, patience: float = PATIENCE) -> None:
    """Remove the columns and tables that rcll added to the tenant, and nothing else, in one transaction.

    Labels that rcll wrote into columns that were there before stay; ``rcll undo`` takes them back.

    Raises:
        Busy: a run holds a lease in the tenant.
        Transient: somebody held a lock all the time; nothing is changed.
        DatabaseError: somebody's view or key stands on what would go, or the role may not change the schema.
    """

    def attempt() -> None:
        with conn.transaction():
            lock_schema(conn, tenant.schema)
            _remove(conn, tenant, _records(conn, tenant))

    with database.connect() as conn, _one_line(tenant, "taken back"):
        try_patiently(database, tenant.schema, attempt, patience=patience)


def create_base(database: Database) -> bool:
    """Create the base tables on the embedded server if its database is empty; whether it was.

    Raises:
        DatabaseError: the database is not the embedded one; tables of others are never made up.
    """
    if not database.is_embedded:
        raise DatabaseError("base tables are only made in the embedded database; expected one with memory_units")

    def attempt() -> bool:
        with conn.transaction():
            lock_schema(conn, "public")
            if conn.execute(query("user_tables"), {"limit": 1}).fetchone():
                return False
            conn.execute(query("create_base"))
        return True

    with database.connect() as conn:
        return try_patiently(database, "public", attempt)


def _attempt(conn: Connection, tenant: Tenant, migration: Migration) -> Callable[[], bool]:
    """One try at a migration; its result is false where another migrator was faster."""

    def attempt() -> bool:
        with conn.transaction():
            lock_schema(conn, tenant.schema)
            if migration not in pending(conn, tenant):
                return False
            conn.execute(query("become_owner"), {"schema": tenant.schema})
            conn.execute(query("create_migrations", **tenant.names()))
            before = _objects(conn, tenant)
            conn.execute(trusted(migration.text, **tenant.names()))
            _record(conn, tenant, migration, _added(before, _objects(conn, tenant, only_ours=True)))
        return True

    return attempt


def _record(conn: Connection, tenant: Tenant, migration: Migration, added: dict[str, list[Any]]) -> None:
    parameters = {"name": migration.name, "checksum": migration.checksum, "version": __version__}
    conn.execute(query("record_migration", **tenant.names()), parameters | {"added": Jsonb(added)})


def _added(before: set[tuple[str, str]], ours: set[tuple[str, str]]) -> dict[str, list[Any]]:
    """New tables, and new columns of tables that stood before."""
    old_tables = {table for table, _ in before}
    tables = sorted({table for table, _ in ours} - old_tables)
    columns = sorted([table, column] for table, column in ours - before if table in old_tables)
    return {"tables": tables, "columns": columns}


def _records(conn: Connection, tenant: Tenant) -> list[_Record]:
    if not _has_table(conn, tenant, _RECORDS):
        return []
    return [_Record(*row) for row in conn.execute(query("select_migrations", **tenant.names())).fetchall()]


def _remove(conn: Connection, tenant: Tenant, records: list[_Record]) -> None:
    if not records:
        return
    if _has_table(conn, tenant, _LEASES):
        lease = conn.execute(query("live_leases", **tenant.names())).fetchone()
        if lease:
            bank, holder, since = lease
            raise Busy(
                f"bank '{bank}' is in use by {holder} since {since:%Y-%m-%d %H:%M:%S %Z}; "
                f"expected no run while the schema is taken back; wait for it to end"
            )
    tables = [table for record in records for table in record.added["tables"]]
    dropped = sql.SQL(", ").join(_in(tenant, table) for table in [*tables, _RECORDS])
    conn.execute(query("drop_tables", tables=dropped))
    for record in records:
        for table, column in record.added["columns"]:
            names = {"table": _in(tenant, table), "column": sql.Identifier(column)}
            conn.execute(query("drop_column", **names))


def _objects(conn: Connection, tenant: Tenant, *, only_ours: bool = False) -> set[tuple[str, str]]:
    """Every (table, column) of the schema, or those that this very transaction has made."""
    parameters = {"schema": tenant.schema, "only_ours": only_ours}
    return set(conn.execute(query("schema_objects"), parameters).fetchall())


def _has_table(conn: Connection, tenant: Tenant, table: str) -> bool:
    return bool(_value(conn, query("has_table"), {"schema": tenant.schema, "table": table}))


def _count_set(conn: Connection, tenant: Tenant, table: str, column: str) -> int:
    statement = query("count_set", table=_in(tenant, table), column=sql.Identifier(column))
    return _count(conn, statement, {"default": _DEFAULTS.get(column)})


def _count(conn: Connection, statement: sql.Composed, parameters: dict[str, Any] | None = None) -> int:
    return int(_value(conn, statement, parameters))


def _value(conn: Connection, statement: sql.Composed, parameters: dict[str, Any] | None = None) -> Any:
    row = conn.execute(statement, parameters).fetchone()
    return row[0] if row else None


def _in(tenant: Tenant, table: str) -> sql.Identifier:
    return sql.Identifier(tenant.schema, table)


@contextmanager
def _one_line(tenant: Tenant, verb: str) -> Generator[None]:
    """Turn what the server says against a change into one line; lock trouble never comes this far."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise DatabaseError(
            f"schema '{tenant.schema}' cannot be {verb}: {_said(error)}; expected the owner of "
            f"memory_units with CREATE on the schema; connect as that role"
        ) from None
    except psycopg.OperationalError as error:
        raise Transient(
            f"schema '{tenant.schema}' could not be {verb}: {_said(error)}; nothing is half done; run again"
        ) from None
    except psycopg.Error as error:
        raise DatabaseError(
            f"schema '{tenant.schema}' cannot be {verb}: {_said(error)}; this step changed nothing; "
            f"remove what is in the way and run again"
        ) from None


def _said(error: psycopg.Error) -> str:
    """What the server says, with its detail: it names the objects that depend on ours."""
    said = [error.diag.message_primary or str(error), *filter(None, [error.diag.message_detail])]
    return " ".join("; ".join(said).split())
