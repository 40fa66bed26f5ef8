"""Routes of banks: retain, recall, rooms, labels of units. One set for both servers."""

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request
from fastapi.security import HTTPBearer

from rcll.service.bodies import (
    LabelledUnit,
    Name,
    Page,
    PageLimit,
    PageOffset,
    Problem,
    RecallAnswer,
    RecallRequest,
    RetainAnswer,
    RetainBatch,
    RetainItem,
    UnitLabel,
)
from rcll.service.host import (
    CurrentCaller,
    CurrentHost,
    Host,
    admit,
    one_line_errors,
    require_bank,
    require_write,
)
from rcll.service.links import link_routes
from rcll.service.palace import Caller
from rcll.service.recall import Ask, recall
from rcll.service.units import relabel_unit
from rcll.store.facets import count_rooms, page_banks, unit_banks

#: Answers other than 200 that any route may give.
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The request cannot be read"},
    401: {"model": Problem, "description": "No key, or a wrong one"},
    403: {"model": Problem, "description": "The key does not open this bank"},
    404: {"model": Problem, "description": "No such bank, unit, tunnel or closet"},
    409: {"model": Problem, "description": "What is there stands in the way"},
    413: {"model": Problem, "description": "The body is too large"},
    422: {"model": Problem, "description": "A field cannot be used"},
    429: {"model": Problem, "description": "Too many requests"},
    502: {"model": Problem, "description": "The embedder or the language model failed"},
    503: {"model": Problem, "description": "Try again later"},
}

BankId = Annotated[Name, Path(description="Name of the bank; percent-encoded where it has signs of a URL.")]

_routes = APIRouter()


def build_router(host: Host) -> APIRouter:
    """All routes, for a server that answers as ``host`` says."""
    bearer = HTTPBearer(auto_error=False, description="A key of rcll keys add; none on a server without keys.")
    dependencies = [Depends(one_line_errors), Depends(bearer), Depends(admit(host))]
    router = APIRouter(dependencies=dependencies, responses=PROBLEMS)
    router.include_router(_routes)
    router.include_router(link_routes)
    return router


@_routes.get("/banks", response_model=Page, tags=["banks"])
async def banks(caller: CurrentCaller, limit: PageLimit = 100, offset: PageOffset = 0) -> dict[str, Any]:
    """Banks that the caller may read, sorted by name, with the number of their units."""
    tenant = caller.palace.place.tenant
    async with caller.palace.pool.connection() as conn:
        found = await page_banks(conn, tenant, allowed=caller.access.readable, limit=limit, offset=offset)
    return found._asdict() | {"limit": limit, "offset": offset}


@_routes.get("/banks/{bank_id:path}/rooms", response_model=Page, tags=["banks"])
async def rooms(
    bank_id: BankId, caller: CurrentCaller, limit: PageLimit = 100, offset: PageOffset = 0
) -> dict[str, Any]:
    """Rooms of a bank, the largest first, with their halls."""
    await require_bank(caller, bank_id)
    async with caller.palace.pool.connection() as conn:
        found = await count_rooms(conn, caller.palace.place.tenant, bank_id)
    return {"items": found[offset : offset + limit], "total": len(found), "limit": limit, "offset": offset}


@_routes.patch("/banks/{bank_id:path}/units/{unit_id}", response_model=LabelledUnit, tags=["banks"])
async def label(bank_id: BankId, unit_id: UUID, body: UnitLabel, caller: CurrentCaller) -> dict[str, Any]:
    """Set a label that no run ever changes, or clear it: then the rules decide again, at once."""
    require_write(caller, bank_id)
    async with caller.palace.pool.connection() as conn:
        stands_in = await unit_banks(conn, caller.palace.place.tenant, [str(unit_id)])
    if stands_in.get(str(unit_id)) != bank_id:
        raise HTTPException(404, f"bank '{bank_id[:64]}' has no unit '{unit_id}'")
    return await relabel_unit(caller.palace, bank_id, str(unit_id), body)


@_routes.get("/banks/{bank_id:path}/recall", response_model=RecallAnswer, tags=["memory"])
async def recall_by_query(
    request: Request,
    bank_id: BankId,
    asked: Annotated[RecallRequest, Query()],
    caller: CurrentCaller,
    host: CurrentHost,
) -> dict[str, Any]:
    """Nearest units and closets, the bank's critical units beside them, and one hop through tunnels."""
    return await _recall(request, host, caller, bank_id, asked)


@_routes.post("/banks/{bank_id:path}/recall", response_model=RecallAnswer, tags=["memory"])
async def recall_by_body(
    request: Request, bank_id: BankId, asked: RecallRequest, caller: CurrentCaller, host: CurrentHost
) -> dict[str, Any]:
    """The same as GET, asked in a body."""
    return await _recall(request, host, caller, bank_id, asked)


@_routes.post("/banks/{bank_id:path}/retain", response_model=RetainAnswer, tags=["memory"])
async def retain(
    request: Request, bank_id: BankId, body: RetainBatch | RetainItem, caller: CurrentCaller, host: CurrentHost
) -> dict[str, Any]:
    """Store memories and label them at once: what is given is explicit, the rules decide the rest."""
    require_write(caller, bank_id)
    items = body.items if isinstance(body, RetainBatch) else [body]
    stored = await host.retain(request, caller, bank_id, items)
    return stored | {"warnings": _unknown_labels(caller, items)}


async def _recall(request: Request, host: Host, caller: Caller, bank: str, asked: RecallRequest) -> dict[str, Any]:
    await require_bank(caller, bank)
    ask = Ask.of(bank, asked)
    return await recall(caller, ask, host.search(request, ask))


def _unknown_labels(caller: Caller, items: Sequence[RetainItem]) -> list[str]:
    """A label outside the taxonomy is somebody's right, and more often a slip."""
    rules = caller.palace.taxonomy
    rooms = {item.room for item in items if item.room} - set(rules.rooms)
    halls = {item.hall for item in items if item.hall} - set(rules.halls)
    unknown = [("room", name) for name in sorted(rooms)] + [("hall", name) for name in sorted(halls)]
    return [f"no rule names {field} '{name}'" for field, name in unknown]
