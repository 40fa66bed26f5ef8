"""Units as they come and as somebody relabels them: embedded, classified, stored."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from fastapi import HTTPException
from starlette.concurrency import run_in_threadpool

from rcll.service.bodies import RetainItem, UnitLabel
from rcll.service.palace import Palace
from rcll.stages.retain import Wanted, label_new_units
from rcll.store.ledger import BY_HAND, LabelledUnit, clear_explicit, find_unit, set_explicit
from rcll.store.recall import has_bank
from rcll.store.retain import NewUnit, StoredLabel, label_units, retain_units, unlabelled_units
from rcll.walk.labels import labelling_hash


async def store_items(palace: Palace, bank: str, items: Sequence[RetainItem]) -> dict[str, Any]:
    """Store each item as one unit, all of them or none; a document that comes again replaces what it was.

    Raises:
        HTTPException: 409 where a memory server owns the tables, 404 where only somebody else can make the bank.
    """
    tenant = palace.place.tenant
    if tenant.has_server:
        raise HTTPException(
            409,
            "these tables are a memory server's, and only it can retain; "
            "load rcll into it: HINDSIGHT_API_HTTP_EXTENSION=rcll.service.hindsight:RcllHttpExtension",
        )
    await _refuse_unknown(palace, bank)
    texts = [item.content for item in items]
    ids = [str(uuid4()) for _ in items]
    vectors = await palace.space.embed(bank, texts)
    labels = await _labels(palace, ids, texts, [item.wanted for item in items])
    units = [
        NewUnit(
            unit_id,
            item.content,
            vector if vector.any() else None,
            item.context,
            item.happened_at,
            item.document_id,
            item.tags or [],
            item.metadata or {},
        )
        for unit_id, item, vector in zip(ids, items, vectors, strict=True)
    ]
    async with palace.pool.connection() as conn:
        stored = await retain_units(conn, tenant, bank, units, labels, taxonomy_hash=_fingerprint(palace))
    rows = [{"id": label.unit_id, **label._asdict()} for label in stored]
    return {"success": True, "bank_id": bank, "items_count": len(items), "units": rows}


async def _refuse_unknown(palace: Palace, bank: str) -> None:
    """A bank with a name comes into being with its first unit; one that is a uuid is somebody else's to make."""
    if palace.place.tenant.bank_type != "uuid":
        return
    async with palace.pool.connection() as conn:
        if not await has_bank(conn, palace.place.tenant, bank):
            raise HTTPException(404, f"bank '{bank[:64]}' does not exist; expected the uuid of one; see GET /banks")


async def label_found(
    palace: Palace, bank: str, unit_ids: Sequence[str], wanted: Wanted | None = None, *, again: bool = False
) -> list[StoredLabel]:
    """Label units of a bank that stand already; without a wish only those that are new or edited, or ``again`` all."""
    wish = wanted or Wanted()
    async with palace.pool.connection() as conn:
        tenant = palace.place.tenant
        found = await unlabelled_units(conn, tenant, bank, unit_ids, all_units=again or wish.is_set)
        if not found:
            return []
        ids, texts = [unit_id for unit_id, _ in found], [text for _, text in found]
        labels = await _labels(palace, ids, texts, [wish] * len(found))
        return await label_units(conn, tenant, labels, taxonomy_hash=_fingerprint(palace))


async def relabel_unit(palace: Palace, bank: str, unit_id: str, label: UnitLabel) -> dict[str, Any]:
    """Set an explicit label, or clear one and let the rules decide at once.

    Raises:
        HTTPException: 404 where the unit went meanwhile.
    """
    if label.clear:
        await run_in_threadpool(_clear, palace, unit_id)
        await label_found(palace, bank, [unit_id])
    else:
        await run_in_threadpool(_set, palace, unit_id, label.wanted)
    stored = await run_in_threadpool(_read, palace, unit_id)
    if stored is None:
        raise HTTPException(404, f"bank '{bank[:64]}' has no unit '{unit_id}'")
    return {name: value for name, value in stored._asdict().items() if name != "text"} | {"id": stored.unit_id}


def _set(palace: Palace, unit_id: str, wanted: Wanted) -> None:
    with palace.place.database.connect() as conn:
        set_explicit(conn, palace.place.tenant, [unit_id], room=wanted.room, hall=wanted.hall, layer=wanted.layer)


def _clear(palace: Palace, unit_id: str) -> None:
    with palace.place.database.connect() as conn:
        clear_explicit(conn, palace.place.tenant, [unit_id])


def _read(palace: Palace, unit_id: str) -> LabelledUnit | None:
    with palace.place.database.connect() as conn:
        return find_unit(conn, palace.place.tenant, unit_id)


async def _labels(palace: Palace, ids: Sequence[str], texts: Sequence[str], wanted: Sequence[Wanted]) -> Any:
    use_layers = palace.place.settings.layers
    return await run_in_threadpool(
        label_new_units, ids, texts, wanted, palace.taxonomy, use_layers=use_layers, by_hand=BY_HAND
    )


def _fingerprint(palace: Palace) -> str:
    return labelling_hash(palace.taxonomy, use_layers=palace.place.settings.layers)
