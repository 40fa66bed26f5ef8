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
    Problem,
    RecallAnswer,
    RecallRequest,
    RetainAnswer,
    RetainBatch,
    RetainItem,
    UnitLabel,
)
from rcll.service.host import Host, one_line_errors, require_read, require_write
from rcll.service.palace import Caller
from rcll.service.recall import Ask, recall
from rcll.service.units import relabel_unit
from rcll.store.facets import count_rooms, page_banks, unit_banks
from rcll.store.recall import has_bank

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
    503: {"model": Problem, "description": "Try again later"},
}

BankId = Annotated[Name, Path(description="Name of the bank; percent-encoded where it has signs of a URL.")]
PageLimit = Annotated[int, Query(ge=1, le=1000)]
PageOffset = Annotated[int, Query(ge=0, le=1_000_000_000)]


def build_router(host: Host) -> APIRouter:
    """All routes, for a server that answers as ``host`` says."""
    # imported here: the routes of tunnels and closets take their words from this module
    from rcll.service.links import add_link_routes  # noqa: PLC0415

    bearer = HTTPBearer(auto_error=False, description="A key of rcll keys add; none on a server without keys.")
    router = APIRouter(dependencies=[Depends(one_line_errors), Depends(bearer)], responses=PROBLEMS)
    _add_bank_routes(router, host)
    _add_recall_routes(router, host)
    add_link_routes(router, host)
    return router


def _add_bank_routes(router: APIRouter, host: Host) -> None:
    caller_of = Annotated[Caller, Depends(host.caller)]

    @router.get("/banks", response_model=Page, summary="Banks that the caller may read", tags=["banks"])
    async def banks(caller: caller_of, limit: PageLimit = 100, offset: PageOffset = 0) -> dict[str, Any]:
        """Sorted by name, with the number of their units."""
        async with caller.palace.pool.connection() as conn:
            found = await page_banks(
                conn, caller.palace.place.tenant, allowed=caller.access.readable, limit=limit, offset=offset
            )
        return found._asdict() | {"limit": limit, "offset": offset}

    @router.get("/banks/{bank_id:path}/rooms", response_model=Page, summary="Rooms of a bank", tags=["banks"])
    async def rooms(
        bank_id: BankId, caller: caller_of, limit: PageLimit = 100, offset: PageOffset = 0
    ) -> dict[str, Any]:
        """The largest first, with their halls."""
        await require_bank(caller, bank_id)
        async with caller.palace.pool.connection() as conn:
            found = await count_rooms(conn, caller.palace.place.tenant, bank_id)
        return {"items": found[offset : offset + limit], "total": len(found), "limit": limit, "offset": offset}

    @router.patch(
        "/banks/{bank_id:path}/units/{unit_id}",
        response_model=LabelledUnit,
        summary="Set or clear a label",
        tags=["banks"],
    )
    async def label(bank_id: BankId, unit_id: UUID, body: UnitLabel, caller: caller_of) -> dict[str, Any]:
        """No run ever changes what is set here; what is cleared the rules decide again, at once."""
        require_write(caller, bank_id)
        async with caller.palace.pool.connection() as conn:
            stands_in = await unit_banks(conn, caller.palace.place.tenant, [str(unit_id)])
            if stands_in.get(str(unit_id)) != bank_id:
                raise HTTPException(404, f"bank '{bank_id[:64]}' has no unit '{unit_id}'")
        return await relabel_unit(caller.palace, bank_id, str(unit_id), body)


def _add_recall_routes(router: APIRouter, host: Host) -> None:
    caller_of = Annotated[Caller, Depends(host.caller)]

    async def answer(request: Request, caller: Caller, bank: str, asked: RecallRequest) -> dict[str, Any]:
        await require_bank(caller, bank)
        ask = Ask(
            bank=bank,
            query=asked.query,
            filters=asked.filters,
            limit=asked.limit,
            l0_limit=asked.l0_limit,
            tunnels=asked.tunnels,
        )
        return await recall(caller, ask, host.search(request, ask))

    path = "/banks/{bank_id:path}/recall"

    @router.get(path, response_model=RecallAnswer, summary="Recall", tags=["memory"])
    async def recall_by_query(
        request: Request, bank_id: BankId, asked: Annotated[RecallRequest, Query()], caller: caller_of
    ) -> dict[str, Any]:
        """Nearest units and closets, the bank's critical units beside them, and one hop through tunnels."""
        return await answer(request, caller, bank_id, asked)

    @router.post(path, response_model=RecallAnswer, summary="Recall, asked in a body", tags=["memory"])
    async def recall_by_body(
        request: Request, bank_id: BankId, asked: RecallRequest, caller: caller_of
    ) -> dict[str, Any]:
        """The same as GET."""
        return await answer(request, caller, bank_id, asked)

    @router.post("/banks/{bank_id:path}/retain", response_model=RetainAnswer, summary="Retain", tags=["memory"])
    async def retain(
        request: Request, bank_id: BankId, body: RetainBatch | RetainItem, caller: caller_of
    ) -> dict[str, Any]:
        """Stores memories and labels them at once: what is given is explicit, the rules decide the rest."""
        require_write(caller, bank_id)
        items = body.items if isinstance(body, RetainBatch) else [body]
        stored = await host.retain(request, caller, bank_id, items)
        return stored | {"warnings": unknown_labels(caller, items)}


async def require_bank(caller: Caller, bank: str) -> None:
    """403 unless the caller may read the bank, 404 where it does not exist."""
    require_read(caller, bank)
    async with caller.palace.pool.connection() as conn:
        if not await has_bank(conn, caller.palace.place.tenant, bank):
            raise HTTPException(404, f"bank '{bank[:64]}' does not exist; see GET /banks")


def unknown_labels(caller: Caller, items: Sequence[RetainItem]) -> list[str]:
    """A label outside the taxonomy is somebody's right, and more often a slip."""
    rules = caller.palace.taxonomy
    rooms = {item.room for item in items if item.room} - set(rules.rooms)
    halls = {item.hall for item in items if item.hall} - set(rules.halls)
    return [f"no rule names room '{room}'" for room in sorted(rooms)] + [
        f"no rule names hall '{hall}'" for hall in sorted(halls)
    ]

