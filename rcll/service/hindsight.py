"""rcll inside an unmodified Hindsight: the same routes at its root and under /ext, its tenants, its authentication.

    HINDSIGHT_API_HTTP_EXTENSION=rcll.service.hindsight:RcllHttpExtension
    HINDSIGHT_API_OPERATION_VALIDATOR_EXTENSION=rcll.service.hindsight:RcllLabelExtension   labels what arrives
    HINDSIGHT_API_MCP_EXTENSION=rcll.service.hindsight:RcllMcpExtension                     tools for agents

Retain goes through Hindsight's own retain, and what came out is labelled; recall goes through Hindsight's own recall,
and is filtered. Nothing of Hindsight's is changed or called in another way than its own routes do.
"""
# pyright: basic, reportMissingImports=false
# hindsight_api is there where this module is loaded, and not where rcll is linted

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from fastapi import APIRouter, HTTPException, Request
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from hindsight_api.api.http import MemoryItem
from hindsight_api.api.mcp import get_current_api_key, get_current_mcp_authenticated
from hindsight_api.api.passthrough_headers import collect_passthrough_headers
from hindsight_api.config import get_config
from hindsight_api.engine.memory_engine import Budget, get_current_schema
from hindsight_api.engine.response_models import VALID_RECALL_FACT_TYPES
from hindsight_api.extensions import (
    HttpExtension,
    MCPExtension,
    OperationValidationError,
    OperationValidatorExtension,
    ValidationResult,
)
from hindsight_api.models import RequestContext
from pydantic import ValidationError

from rcll.errors import DatabaseError, RcllError
from rcll.logs import get_logger
from rcll.service.access import EVERYTHING
from rcll.service.bodies import RecallRequest, RetainItem
from rcll.service.host import require_bank
from rcll.service.links import MAX_BRIDGE
from rcll.service.palace import Caller, Palace
from rcll.service.recall import Ask, Search, recall
from rcll.service.routes import build_router
from rcll.service.units import label_found
from rcll.settings import Settings, load_settings
from rcll.stages.recall import Hit
from rcll.store.catalog import read_tenants
from rcll.store.connect import Database
from rcll.store.pool import Pool
from rcll.store.recall import Question, Searcher, vector_indexes
from rcll.store.retain import StoredLabel, document_units
from rcll.taxonomy import load_taxonomy
from rcll.walk.bridge import bridge_banks
from rcll.walk.place import Place

logger = get_logger("rcll.service")

#: Hindsight's MemoryEngine; its own types are looser than ours.
Memory = Any

POOL_SIZE = 4
#: How wide Hindsight's recall is cast, one after the other, until enough of what it finds passes the filters.
_CASTS = ((Budget.LOW, 4_096), (Budget.MID, 16_384), (Budget.HIGH, 131_072))


class Palaces:
    """Palaces of a Hindsight's tenants, opened when first asked for; one pool for all of them."""

    def __init__(self) -> None:
        self._open: dict[str, Palace] = {}
        self._pool: Pool | None = None
        self._lock = asyncio.Lock()

    async def of(self, memory: Memory, schema: str) -> Palace:
        """The palace of a tenant.

        Raises:
            DatabaseError: its schema has not been migrated by rcll.
        """
        async with self._lock:
            if schema not in self._open:
                self._open[schema] = await self._build(memory, schema)
            return self._open[schema]

    async def close(self) -> None:
        """Let go of all connections."""
        if self._pool is not None:
            await self._pool.close()
        self._pool = None
        self._open.clear()

    async def _build(self, memory: Memory, schema: str) -> Palace:
        settings = load_settings()
        database = Database(str(memory.db_url).replace("postgresql+asyncpg://", "postgresql://"), is_embedded=False)
        place = await asyncio.to_thread(_read_place, settings, database, schema)
        if self._pool is None:
            self._pool = Pool(database, size=POOL_SIZE)
            await self._pool.open()
        async with self._pool.connection() as conn:
            has_index, has_types = await vector_indexes(conn, place.tenant)
        return Palace(
            place=place,
            pool=self._pool,
            taxonomy=load_taxonomy(settings.taxonomy),
            space=_HindsightSpace(memory),
            has_types=has_types,
            has_index=has_index,
        )


#: One process, one event loop, one set of connections, whichever extensions are loaded.
_palaces = Palaces()


class RcllHttpExtension(HttpExtension):
    """The routes of rcll."""

    def get_router(self, memory: Memory) -> APIRouter:
        """Under /ext."""
        return build_router(HindsightHost(memory))

    def get_root_router(self, memory: Memory) -> APIRouter | None:
        """At the root, where RCLL's clients look."""
        return build_router(HindsightHost(memory))

    async def on_shutdown(self) -> None:
        """Close our connections."""
        await _palaces.close()


class HindsightHost:
    """Callers are Hindsight's; units come in and are found by its own ways."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def caller(self, request: Request) -> Caller:
        """Whoever Hindsight lets in, in the tenant that it says; Hindsight answers 401 itself."""
        context = _context_of(request)
        tenant = await self._memory.tenant_extension.authenticate(context)
        palace = await _palaces.of(self._memory, tenant.schema_name)
        return Caller(palace, EVERYTHING, context.api_key_id or "")

    async def retain(self, request: Request, caller: Caller, bank: str, items: Sequence[RetainItem]) -> dict[str, Any]:
        """Retain as Hindsight does, then label what came of each item."""
        contents = [_content(item) for item in items]
        # A call answers for a whole document what came of it, and items without one share one: alone each is told.
        is_apart = any(item.wanted.is_set for item in items) and not any(item.document_id for item in items)
        found: list[list[str]] = []
        for batch in [[content] for content in contents] if is_apart else [contents]:
            with _refusals():
                found += await self._memory.retain_batch_async(
                    bank_id=bank, contents=batch, request_context=_context_of(request)
                )
        units: list[dict[str, Any]] = []
        for item, unit_ids in zip(items, found, strict=True):
            labelled = await _label_item(caller.palace, bank, item, unit_ids)
            units += [{"id": label.unit_id, **label._asdict()} for label in labelled]
        return {"success": True, "bank_id": bank, "items_count": len(items), "units": units}

    def search(self, request: Request, ask: Ask) -> Search | None:
        """Hindsight's recall, filtered."""
        return _filtered_recall(self._memory, _context_of(request), ask)


class RcllLabelExtension(OperationValidatorExtension):
    """Refuses nothing, and labels by the rules what Hindsight's ordinary API retains, as it arrives."""

    async def validate_retain(self, ctx: Any) -> ValidationResult:  # noqa: ARG002 - Hindsight's signature
        """Accept."""
        return ValidationResult.accept()

    async def validate_recall(self, ctx: Any) -> ValidationResult:  # noqa: ARG002
        """Accept."""
        return ValidationResult.accept()

    async def validate_reflect(self, ctx: Any) -> ValidationResult:  # noqa: ARG002
        """Accept."""
        return ValidationResult.accept()

    async def on_retain_complete(self, result: Any) -> None:
        """Label the new units; where that fails the next run does it."""
        unit_ids = [unit_id for ids in result.unit_ids or () for unit_id in ids]
        if not result.success or not unit_ids:
            return
        try:
            palace = await _palaces.of(self.context.get_memory_engine(), get_current_schema())
            await label_found(palace, result.bank_id, unit_ids)
        except RcllError as error:
            logger.warning("%d new units are not labelled yet: %s", len(unit_ids), error)


class RcllMcpExtension(MCPExtension):
    """Recall with rooms, closets and bridges as tools for agents."""

    def register_tools(self, mcp: FastMCP, memory: Memory) -> None:
        """Add the tools."""

        @mcp.tool()
        async def recall_room(  # noqa: ANN202 - what an agent gets
            bank_id: str,
            query: str,
            room: str | None = None,
            hall: str | None = None,
            max_layer: int = 2,
            limit: int = 20,
        ):
            """Recall memories of a bank, only of a room (topic) or hall (kind of knowledge) if one is named.

            The answer holds results (units, and closets that sum several up), the bank's critical memories, and
            memories of other banks that tunnels lead to.
            """
            with _told():
                context = _mcp_context()
                caller = await _mcp_caller(memory, context)
                asked = {"query": query, "room": room, "hall": hall, "max_layer": max_layer, "limit": limit}
                ask = Ask.of(bank_id, RecallRequest.model_validate(asked))
                await require_bank(caller, bank_id)
                return await recall(caller, ask, _filtered_recall(memory, context, ask))

        @mcp.tool()
        async def bridge(source_bank_id: str, target_bank_id: str, room: str, limit: int = 20):  # noqa: ANN202
            """Find what two banks both know in a room, and link the strongest pairs by tunnels."""
            with _told():
                caller = await _mcp_caller(memory, _mcp_context())
                for bank_id in (source_bank_id, target_bank_id):
                    await require_bank(caller, bank_id)
                n_most = min(max(limit, 1), MAX_BRIDGE)
                made = await asyncio.to_thread(
                    bridge_banks, caller.palace.place, source_bank_id, target_bank_id, room, limit=n_most
                )
            return {"n_new": made.n_new, "tunnels": [tunnel._asdict() for tunnel in made.tunnels]}


class _HindsightSpace:
    """Hindsight's own embedder."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def embed(self, bank: str, texts: Sequence[str]) -> np.ndarray:  # noqa: ARG002 - one model for all banks
        return np.asarray(await self._memory.embeddings.encode_query(list(texts)), dtype=np.float32)


@contextmanager
def _refusals() -> Generator[None]:
    """Turn what Hindsight's own rules refuse into an answer."""
    try:
        yield
    except OperationValidationError as error:
        raise HTTPException(error.status_code, error.reason) from None


@contextmanager
def _told() -> Generator[None]:
    """Tell an agent in one line what is wrong with its call."""
    try:
        yield
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors(include_input=False))
        raise ToolError("; ".join(faults)) from None
    except HTTPException as error:
        raise ToolError(str(error.detail)) from None
    except RcllError as error:
        raise ToolError(str(error)) from None


def _filtered_recall(memory: Memory, context: RequestContext, ask: Ask) -> Search:
    """Hindsight's recall, cast wider until enough passes the filters; last, all of the room by vectors."""

    async def search(searcher: Searcher, question: Question, limit: int) -> list[Hit]:
        passed: list[str] = []
        for budget, max_tokens in _CASTS:
            with _refusals():
                found = await memory.recall_async(
                    bank_id=ask.bank,
                    query=ask.query,
                    budget=budget,
                    max_tokens=max_tokens,
                    fact_type=list(VALID_RECALL_FACT_TYPES),
                    request_context=context,
                )
            ids = list(dict.fromkeys(str(fact.id) for fact in found.results))
            units = await searcher.units(ids)
            passed = [i for i in ids if i in units and question.filters.admit(*units[i][3:6])]
            if len(passed) >= limit:
                break
        hits = _ranked(passed[:limit], await searcher.distances(question, passed[:limit]))
        if len(hits) < limit:
            rest = [hit for hit in await searcher.exact(question, limit) if hit.id not in set(passed)]
            last = hits[-1].distance if hits else 0.0
            hits += [Hit(hit.id, max(hit.distance, last)) for hit in rest[: limit - len(hits)]]
        return hits

    return search


def _ranked(ids: Sequence[str], distances: dict[str, float]) -> list[Hit]:
    """Hits whose order by distance is Hindsight's order: each as near as the nearest behind it."""
    hits: list[Hit] = []
    nearest = 2.0
    for place, unit_id in reversed(list(enumerate(ids))):
        nearest = min(nearest, distances.get(unit_id, nearest))
        hits.append(Hit(unit_id, nearest + 1e-9 * place))
    return hits[::-1]


async def _label_item(palace: Palace, bank: str, item: RetainItem, unit_ids: Sequence[str]) -> list[StoredLabel]:
    """Label what came of an item; of a document that was there already, its units too where a label is asked for."""
    ids = list(unit_ids)
    if item.wanted.is_set and item.document_id:
        async with palace.pool.connection() as conn:
            ids += await document_units(conn, palace.place.tenant, bank, [item.document_id])
    # Again: RcllLabelExtension, where it is loaded too, has filed them already, and the answer names their labels.
    return await label_found(palace, bank, list(dict.fromkeys(ids)), item.wanted, again=True)


def _content(item: RetainItem) -> dict[str, Any]:
    """An item as Hindsight's retain takes it, once Hindsight's own model has passed it."""
    sent = item.model_dump(exclude={"room", "hall", "layer"}, exclude_none=True) | {"content": item.content}
    try:
        checked = MemoryItem.model_validate(sent)
    except ValidationError as error:
        raise HTTPException(
            422, [{"loc": e["loc"], "msg": e["msg"]} for e in error.errors(include_input=False)]
        ) from None
    names = ("context", "metadata", "document_id", "tags", "observation_scopes", "update_mode", "strategy")
    content = {name: value for name in names if (value := getattr(checked, name, None)) is not None}
    if item.timestamp is not None:
        content["event_date"] = item.happened_at
    if checked.entities:
        content["entities"] = [{"text": e.text, "type": e.type or "CONCEPT"} for e in checked.entities]
        content["resolve_entities"] = checked.resolve_entities
    return content | {"content": item.content}


def _context_of(request: Request) -> RequestContext:
    """The request's context as Hindsight's own routes make it, one for each request."""
    cached = getattr(request.state, "hs_request_context", None)
    if cached is None:
        header = request.headers.get("authorization") or ""
        scheme, _, rest = header.partition(" ")
        key = rest.strip() if scheme.lower() == "bearer" else header.strip()
        extra = collect_passthrough_headers(request.headers.raw, get_config().extension_passthrough_headers)
        cached = request.state.hs_request_context = RequestContext(api_key=key or None, extra_headers=extra)
    return cached


def _mcp_context() -> RequestContext:
    return RequestContext(api_key=get_current_api_key(), mcp_authenticated=get_current_mcp_authenticated())


async def _mcp_caller(memory: Memory, context: RequestContext) -> Caller:
    if context.mcp_authenticated:
        schema = get_current_schema()
    else:
        schema = (await memory.tenant_extension.authenticate_mcp(context)).schema_name
    return Caller(await _palaces.of(memory, schema), EVERYTHING, "")


def _read_place(settings: Settings, database: Database, schema: str) -> Place:
    with database.connect() as conn:
        (tenant,) = read_tenants(conn, [schema])
    if not tenant.migrated:
        raise DatabaseError(f"schema '{schema}' is not migrated; expected rcll's columns; run rcll migrate")
    return Place(settings, database, tenant)
