"""Writes units as they come, with their labels and ledger rows: all of a call in one short transaction, or nothing."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import psycopg
from psycopg import sql

from rcll.errors import DatabaseError
from rcll.store.catalog import Tenant
from rcll.store.pool import AsyncConnection
from rcll.store.recall import layer_number, vector_text
from rcll.store.sql import query

#: Columns that are filled where the table has them, with what.
_COLUMNS = {
    "context": sql.SQL("i.context"),
    "document_id": sql.SQL("i.document_id"),
    "event_date": sql.SQL("coalesce(i.happened_at, now())"),
    "occurred_start": sql.SQL("i.happened_at"),
    "mentioned_at": sql.SQL("now()"),
    "tags": sql.SQL("ARRAY(SELECT jsonb_array_elements_text(i.tags))"),
    "metadata": sql.SQL("i.metadata"),
}


class NewUnit(NamedTuple):
    """A unit to be written; ``embedding`` in the bank's space, None for a text that has no direction."""

    unit_id: str
    text: str
    embedding: np.ndarray | None
    context: str | None
    happened_at: datetime | None
    document_id: str | None
    tags: list[str]
    metadata: dict[str, Any]


class StoredLabel(NamedTuple):
    """What a unit's label is now, who decided each field, and by which rule."""

    unit_id: str
    room: str | None
    hall: str | None
    layer: int | None
    room_source: str
    hall_source: str
    layer_source: str
    room_rule: str | None
    hall_rule: str | None
    layer_rule: str | None


async def retain_units(
    conn: AsyncConnection,
    tenant: Tenant,
    bank: str,
    units: Sequence[NewUnit],
    labels: pl.DataFrame,
    *,
    taxonomy_hash: str,
) -> list[StoredLabel]:
    """Insert units with their labels (stages.retain.NEW_LABELS, row i for unit i), and the bank if it is new.

    A document that comes again replaces what it was: units whose text it holds no more go, those whose text it still
    holds stay, with what somebody has set on them.

    Returns:
        The label of each unit, in order; of one that stays, under its own id.

    Raises:
        DatabaseError: the table asks for what nobody gave, or the bank does not exist and cannot be made.
    """
    try:
        async with conn.transaction():
            standing = await _replace_documents(conn, tenant, bank, units)
            stay = [standing.get((unit.document_id, unit.text)) for unit in units]
            is_new = pl.Series([unit_id is None for unit_id in stay], dtype=pl.Boolean)
            new = [unit for unit, unit_id in zip(units, stay, strict=True) if unit_id is None]
            await _insert(conn, tenant, bank, new, labels.filter(is_new), taxonomy_hash)
            known = labels.with_columns(unit_id=pl.Series(stay, dtype=pl.String)).filter(~is_new)
            kept = await label_units(
                conn, tenant, known.unique("unit_id", keep="last", maintain_order=True), taxonomy_hash=taxonomy_hash
            )
    except psycopg.errors.IntegrityError as error:
        raise DatabaseError(
            f"the units cannot be stored: {error.diag.message_primary}; expected a bank and table of rcll's own kind"
        ) from None
    made = [StoredLabel(row["unit_id"], *(row[name] for name in StoredLabel._fields[1:])) for row in labels.to_dicts()]
    by_id = {label.unit_id: label for label in kept}
    return [by_id.get(unit_id or "", label) for unit_id, label in zip(stay, made, strict=True)]


async def _replace_documents(
    conn: AsyncConnection, tenant: Tenant, bank: str, units: Sequence[NewUnit]
) -> dict[tuple[str | None, str], str]:
    """Make room for documents that come again; (document, text) of the units that stay, and their ids."""
    coming = [(unit.document_id, unit.text) for unit in units if unit.document_id is not None]
    if not coming or "document_id" not in tenant.unit_columns:
        return {}
    documents, texts = zip(*coming, strict=True)
    values = {"schema": tenant.schema, "bank": bank, "documents": list(documents), "texts": list(texts)}
    await conn.execute(query("lock_documents"), values)
    rows = await (await conn.execute(query("replace_documents", **tenant.names()), values)).fetchall()
    return {(document, text): unit_id for document, text, unit_id in rows}


async def _insert(
    conn: AsyncConnection,
    tenant: Tenant,
    bank: str,
    units: Sequence[NewUnit],
    labels: pl.DataFrame,
    taxonomy_hash: str,
) -> None:
    columns = [name for name in _COLUMNS if name in tenant.unit_columns]
    names = tenant.names() | {
        "columns": sql.SQL("").join(sql.SQL(", {}").format(sql.Identifier(name)) for name in columns),
        "values": sql.SQL("").join(sql.SQL(", {}").format(_COLUMNS[name]) for name in columns),
    }
    values = _label_values(tenant, labels) | _unit_values(units) | {"bank": bank, "taxonomy_hash": taxonomy_hash}
    if tenant.bank_type == "text":
        await conn.execute(query("register_bank", **tenant.names()), values)
    if units:
        await conn.execute(query("insert_units", **names), values)
        await conn.execute(query("file_new_units", **names, new_labels=query("new_labels")), values)


async def unlabelled_units(
    conn: AsyncConnection, tenant: Tenant, bank: str, unit_ids: Sequence[str], *, all_units: bool = False
) -> list[tuple[str, str]]:
    """(unit, text) of those units of a bank that are new or edited, or of all of them."""
    values = {"bank": bank, "unit_ids": list(unit_ids), "all_units": all_units}
    return await (await conn.execute(query("unlabelled_units", **tenant.names()), values)).fetchall()


async def document_units(conn: AsyncConnection, tenant: Tenant, bank: str, documents: Sequence[str]) -> list[str]:
    """Units that came from these documents."""
    values = {"bank": bank, "documents": list(documents)}
    rows = await (await conn.execute(query("document_units", **tenant.names()), values)).fetchall()
    return [unit_id for (unit_id,) in rows]


async def label_units(
    conn: AsyncConnection, tenant: Tenant, labels: pl.DataFrame, *, taxonomy_hash: str
) -> list[StoredLabel]:
    """Label units that stand already (stages.retain.NEW_LABELS); what somebody has set stays."""
    if labels.is_empty():
        return []
    fragments = {"number": layer_number(tenant), "new_labels": query("new_labels"), "is_held": query("is_held")}
    names = tenant.names() | fragments
    values = _label_values(tenant, labels) | {"taxonomy_hash": taxonomy_hash}
    async with conn.transaction():
        rows = await (await conn.execute(query("label_units", **names), values)).fetchall()
    return [StoredLabel(*row) for row in rows]


def _label_values(tenant: Tenant, labels: pl.DataFrame) -> dict[str, Any]:
    prefix = "L" if tenant.layer_type == "text" else ""
    return labels.to_dict(as_series=False) | {"stored_layer": [f"{prefix}{layer}" for layer in labels["layer"]]}


def _unit_values(units: Sequence[NewUnit]) -> dict[str, Any]:
    return {
        "unit_id": [unit.unit_id for unit in units],
        "text": [unit.text for unit in units],
        "embedding": [None if unit.embedding is None else vector_text(unit.embedding) for unit in units],
        "context": [unit.context for unit in units],
        "happened_at": [unit.happened_at for unit in units],
        "document_id": [unit.document_id for unit in units],
        "tags": [json.dumps(unit.tags) for unit in units],
        "metadata": [json.dumps(unit.metadata) for unit in units],
    }
