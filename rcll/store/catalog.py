"""Finds out what kind of database this is by reading its catalog, and names what rcll works on there.

Nothing is taken from a flag or from search_path: names are always qualified, pgvector's types included.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NoReturn, cast

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from rcll.errors import DatabaseError, InputError
from rcll.store.sql import query

Kind = Literal["own", "hindsight", "specification", "fork"]

EXPECTED = (
    "expected Hindsight's tables (banks with bank_id text, memory_units with id uuid, bank_id and text) "
    "or the specification's (memory_banks with id uuid)"
)
#: Dimensions of closets where no embedding column says otherwise; the specification's number.
DEFAULT_DIMS = 1536
OWN_DIMS = 256

_UNITS, _ARCHIVE = "memory_units", "invalidated_memory_units"
#: Tables that Hindsight makes and a plain bank database does not have.
_HINDSIGHT = (_ARCHIVE, "documents", "memory_links", "alembic_version")
_BANKS = (("banks", "bank_id"), ("memory_banks", "id"), ("banks", "id"), ("memory_banks", "bank_id"))
_TEXT_COLUMNS = ("text", "content")
#: When the matter of a unit happened, best column first.
_DATE_COLUMNS = ("occurred_start", "mentioned_at", "event_date", "created_at")
#: The specification's labels: DDL of a column that is missing, and the default as the catalog prints it.
_LABELS = {
    "room": ("character varying(64)", "'general'"),
    "hall": ("character varying(64)", "'fact'"),
    "layer": ("integer", "2"),
}
#: Columns by which a table of a common name is known to be ours and not a fork's.
_OURS = {
    "tunnels": {"source_unit_id", "target_unit_id", "method", "evidence"},
    "closets": {"source_unit_ids", "source_hash", "is_extractive"},
    "closet_sources": {"closet_id", "unit_id", "text_hash"},
}
_OWN_TABLES = {
    "ledger": "rcll_labels",
    "runs": "rcll_runs",
    "changes": "rcll_changes",
    "explicit": "rcll_explicit",
    "leases": "rcll_leases",
    "migrations": "rcll_migrations",
    "keys": "rcll_keys",
}
_TYPE_FAMILY = {"text": "text", "varchar": "text", "int2": "integer", "int4": "integer", "int8": "integer"}


@dataclass(frozen=True, slots=True)
class EmbeddingType:
    """Type of the units' embedding column; ``dims`` is None where the column takes any."""

    type: Literal["vector", "halfvec"]
    dims: int | None
    extension_schema: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One PostgreSQL schema that holds memory units, as its catalog describes it; pickles.

    ``date_columns`` are the columns of memory_units that tell when a unit's matter happened, best first.
    ``label_columns`` is the DDL that gives room, hall and layer, in this order, the types that memory_units
    has or will have. ``unit_columns`` are all columns of memory_units. ``has_server`` tells that a memory server keeps
    documents or links beside the units: only it can retain. ``present`` names those of rcll's tables that are there, by
    their keys in ``names``: a tenant of an older rcll has some of them.
    """

    schema: str
    kind: Kind
    banks: str
    bank_key: str
    bank_type: Literal["text", "uuid"]
    archive: str | None
    text_column: str
    embedding: EmbeddingType | None
    vector_schema: str
    layer_type: Literal["integer", "text"] | None
    has_labels: bool
    label_columns: tuple[str, str, str]
    date_columns: tuple[str, ...]
    unit_columns: tuple[str, ...]
    has_server: bool
    tunnels: str
    closets: str
    closet_sources: str
    present: frozenset[str]
    units: str = _UNITS

    @property
    def migrated(self) -> bool:
        """Whether all columns and tables of rcll are there."""
        return self.has(*_OURS, *_OWN_TABLES)

    def has(self, *tables: str) -> bool:
        """Whether the labels and these tables are there, and so can be read whatever migrations are pending."""
        return self.has_labels and self.present.issuperset(tables)

    def names(self) -> dict[str, sql.Composable]:
        """What the placeholders of our queries and migrations stand for in this tenant."""
        tables = _OWN_TABLES | {
            "units": self.units,
            "banks": self.banks,
            "archive": self.archive or _ARCHIVE,
            "tunnels": self.tunnels,
            "closets": self.closets,
            "closet_sources": self.closet_sources,
        }
        labels = zip(_LABELS, self.label_columns, strict=True)
        return {
            **{key: sql.Identifier(self.schema, table) for key, table in tables.items()},
            **{f"{label}_column": _from_catalog(ddl) for label, ddl in labels},
            "schema": sql.Identifier(self.schema),
            "bank_key": sql.Identifier(self.bank_key),
            "bank_type": _from_catalog(self.bank_type),
            "layer_type": _from_catalog(self.layer_type or "integer"),
            "text": sql.Identifier(self.text_column),
            "vector_type": self._vector_type(),
        }

    def _vector_type(self) -> sql.Composable:
        found = self.embedding or EmbeddingType("vector", DEFAULT_DIMS, self.vector_schema)
        name = sql.Identifier(found.extension_schema, found.type)
        return name if found.dims is None else sql.SQL("{}({})").format(name, sql.Literal(found.dims))


class _Column(NamedTuple):
    """One row of the query catalog_columns."""

    schema: str
    relation: str
    relkind: str
    is_readable: bool
    name: str
    type: str
    typmod: int
    definition: str
    default_value: str | None
    is_key: bool
    is_generated: bool


_Relations = Mapping[str, dict[str, _Column]]


def read_tenants(conn: psycopg.Connection[Any], schemas: Sequence[str] = ()) -> list[Tenant]:
    """Recognise every tenant of a database.

    Args:
        conn: an open connection.
        schemas: which PostgreSQL schemas to look at; empty means all that hold units and may be read.

    Returns:
        Tenants sorted by schema; at least one.

    Raises:
        InputError: a schema was named that holds no units.
        DatabaseError: no pgvector, no units, or a layout that rcll does not know.
    """
    vector_schema = _vector_schema(conn)
    found = _read_relations(conn)
    if not found:
        _refuse_alien(conn)
    wanted = list(dict.fromkeys(schemas)) or [s for s, relations in found.items() if _is_readable(relations)]
    missing = sorted(set(wanted) - set(found))
    if missing:
        raise InputError(
            f"schema '{missing[0]}' holds no memory_units; expected one of {_listed(found)}; correct --schema"
        )
    unreadable = [schema for schema in (wanted or found) if not _is_readable(found[schema])]
    if unreadable:
        raise DatabaseError(
            f"role '{conn.info.user}' may not read memory_units in schema '{unreadable[0]}'; expected USAGE "
            f"on the schema and SELECT on its tables; grant them or choose another --schema"
        )
    return [_recognise(schema, found[schema], vector_schema) for schema in sorted(wanted)]


def _vector_schema(conn: psycopg.Connection[Any]) -> str:
    row = conn.execute(query("vector_schema")).fetchone()
    if row is None:
        raise DatabaseError(
            f"database '{conn.info.dbname}' has no extension vector; expected pgvector 0.8 or newer; "
            f"run CREATE EXTENSION vector"
        )
    return str(row[0])


def _read_relations(conn: psycopg.Connection[Any]) -> dict[str, dict[str, dict[str, _Column]]]:
    """Columns by schema, table and name, of the tables that rcll knows by name."""
    ours = [name for table in _OURS for name in (table, f"rcll_{table}")]
    tables = [_UNITS, *_HINDSIGHT, *(table for table, _ in _BANKS), *ours, *_OWN_TABLES.values()]
    found: dict[str, dict[str, dict[str, _Column]]] = defaultdict(lambda: defaultdict(dict))
    with conn.cursor(row_factory=class_row(_Column)) as cursor:
        for column in cursor.execute(query("catalog_columns"), {"tables": tables}):
            found[column.schema][column.relation][column.name] = column
    return {schema: dict(relations) for schema, relations in found.items()}


def _refuse_alien(conn: psycopg.Connection[Any]) -> NoReturn:
    tables = [name for (name,) in conn.execute(query("user_tables"), {"limit": 5})]
    shown = f"tables such as {_listed(tables)}" if tables else "no tables at all"
    raise DatabaseError(
        f"database '{conn.info.dbname}' holds no memory_units, but {shown}; {EXPECTED}; "
        f"correct RCLL_DATABASE_URL, or unset it to use the embedded database"
    )


def _is_readable(relations: _Relations) -> bool:
    return all(column.is_readable for column in relations[_UNITS].values())


def _recognise(schema: str, relations: _Relations, vector_schema: str) -> Tenant:
    units = _require_units(schema, relations)
    banks, bank_key = _find_banks(schema, relations)
    bank_type = "uuid" if units["bank_id"].type == "uuid" else "text"
    embedding = _embedding_type(schema, units, vector_schema)
    archive = _ARCHIVE if _is_table(relations.get(_ARCHIVE)) else None
    tables = {table: _our_table(table, relations) for table in _OURS}
    layer = units.get("layer")
    return Tenant(
        schema=schema,
        kind=_kind(relations, bank_type, embedding),
        banks=banks,
        bank_key=bank_key,
        bank_type=bank_type,
        archive=archive,
        text_column=_text_column(schema, units),
        embedding=embedding,
        vector_schema=vector_schema,
        layer_type=cast("Literal['integer', 'text']", _TYPE_FAMILY[layer.type]) if layer else None,
        has_labels=units.keys() >= _LABELS.keys(),
        label_columns=cast("tuple[str, str, str]", tuple(_label_ddl(label, units) for label in _LABELS)),
        date_columns=_date_columns(units),
        unit_columns=tuple(units),
        has_server=any(table in relations for table in _HINDSIGHT if table != _ARCHIVE),
        present=frozenset(key for key, table in (tables | _OWN_TABLES).items() if table in relations),
        **tables,
    )


def _require_units(schema: str, relations: _Relations) -> dict[str, _Column]:
    """Columns of memory_units, once it is known to be a table on which everything else can stand."""
    units = relations[_UNITS]
    if not _is_table(units):
        _refuse(schema, "memory_units is a view or a partitioned or foreign table; expected an ordinary table")
    unit_id = units.get("id")
    if unit_id is None or unit_id.type != "uuid" or not unit_id.is_key:
        found = f"memory_units.id is {unit_id.definition}, unique: {unit_id.is_key}" if unit_id else "no id"
        _refuse(schema, f"{found}; expected id uuid as primary key")
    bank = units.get("bank_id")
    if bank is None or bank.type not in {"uuid", "text", "varchar"}:
        found = f"memory_units.bank_id is {bank.definition}" if bank else "memory_units has no bank_id"
        _refuse(schema, f"{found}; expected bank_id text or uuid")
    for label, (ddl, _) in _LABELS.items():
        column = units.get(label)
        families = {"text", "integer"} if label == "layer" else {"text"}
        if column and _TYPE_FAMILY.get(column.type) not in families:
            _refuse(schema, f"memory_units.{label} is {column.definition}; expected {ddl} or text")
        if column and column.is_generated:
            _refuse(schema, f"memory_units.{label} is a generated column; expected one that can be written")
    return units


def _find_banks(schema: str, relations: _Relations) -> tuple[str, str]:
    """Table and column that the units' bank_id speaks of."""
    wanted = _family(relations[_UNITS]["bank_id"])
    for table, key in _BANKS:
        column = relations.get(table, {}).get(key)
        if column and column.relkind == "r" and column.is_key and _family(column) == wanted:
            return table, key
    found = [
        f"{table}.{key} {column.definition}{'' if column.is_key else ' (not unique)'}"
        for table, key in _BANKS
        if (column := relations.get(table, {}).get(key))
    ]
    return _refuse(
        schema,
        f"memory_units.bank_id is {relations[_UNITS]['bank_id'].definition}, and for banks there is "
        f"{_listed(found) or 'nothing'}; expected banks.bank_id or memory_banks.id of that type, unique",
    )


def _embedding_type(schema: str, units: Mapping[str, _Column], vector_schema: str) -> EmbeddingType | None:
    column = units.get("embedding")
    if column is None:
        return None
    if column.type not in {"vector", "halfvec"}:
        _refuse(
            schema,
            f"memory_units.embedding is {column.definition}; expected vector, halfvec or no such column",
        )
    kind = cast("Literal['vector', 'halfvec']", column.type)
    return EmbeddingType(kind, column.typmod if column.typmod > 0 else None, vector_schema)


def _text_column(schema: str, units: Mapping[str, _Column]) -> str:
    for name in _TEXT_COLUMNS:
        if name in units and _TYPE_FAMILY.get(units[name].type) == "text":
            return name
    return _refuse(schema, f"memory_units has columns {_listed(sorted(units)[:12])}; expected text or content")


def _date_columns(units: Mapping[str, _Column]) -> tuple[str, ...]:
    dates = {"timestamptz", "timestamp", "date"}
    return tuple(name for name in _DATE_COLUMNS if name in units and units[name].type in dates)


def _kind(relations: _Relations, bank_type: str, embedding: EmbeddingType | None) -> Kind:
    units = relations[_UNITS]
    if any(_is_alien(label, units[label]) for label in _LABELS if label in units):
        return "fork"
    if bank_type == "uuid":
        return "specification"
    is_plain = not any(table in relations for table in _HINDSIGHT)
    return "own" if is_plain and embedding and embedding.dims == OWN_DIMS else "hindsight"


def _is_alien(label: str, column: _Column) -> bool:
    """Whether somebody else made this label column, in another shape than the specification's."""
    ddl, default = _LABELS[label]
    return column.definition != ddl or (column.default_value or "").split("::", maxsplit=1)[0] != default


def _label_ddl(label: str, units: Mapping[str, _Column]) -> str:
    if label in units and _is_alien(label, units[label]):
        return units[label].definition
    ddl, default = _LABELS[label]
    return f"{ddl} DEFAULT {default}"


def _our_table(table: str, relations: _Relations) -> str:
    """The specification's name where it is free or ours; beside a fork's own table, rcll_ and the name."""
    alternative = f"rcll_{table}"
    is_free = table not in relations or relations[table].keys() >= _OURS[table]
    return table if is_free and alternative not in relations else alternative


def _is_table(columns: Mapping[str, _Column] | None) -> bool:
    return bool(columns) and all(column.relkind == "r" for column in columns.values())


def _family(column: _Column) -> str:
    return _TYPE_FAMILY.get(column.type, column.type)


def _from_catalog(ddl: str) -> sql.SQL:
    """Type names that format_type printed, or that stand in this file; never anybody's input."""
    return sql.SQL(cast("Any", ddl))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _refuse(schema: str, reason: str) -> NoReturn:
    raise DatabaseError(f"schema '{schema}' cannot be worked on: {reason}; leave it out by naming others with --schema")
