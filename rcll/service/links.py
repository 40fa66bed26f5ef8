"""Routes of tunnels, bridges and closets; whoever links banks must be allowed to write both."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, HTTPException, Query, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from starlette.concurrency import run_in_threadpool

from rcll.service.bodies import Label, Name, Page, PageLimit, PageOffset, Text
from rcll.service.host import CurrentCaller, require_bank, require_read, require_write
from rcll.service.palace import Caller
from rcll.store.closets import Closet
from rcll.store.facets import registered_banks, unit_banks
from rcll.store.links import LinkPage, page_closets, page_tunnels
from rcll.walk.asked import MAX_SOURCES, create_closet, drop_closet
from rcll.walk.bridge import BRIDGE_LIMIT, Bridged, add_tunnel, bridge_banks, remove_tunnel

Relationship = Annotated[Text, StringConstraints(min_length=1, max_length=256, strip_whitespace=True)]
MAX_BRIDGE = 200

link_routes = APIRouter()


class TunnelRequest(BaseModel):
    """A link between two units of two banks."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "source_unit_id": "6f1f0a7e-3c0e-4a57-9f0e-0c8f6f3b8f10",
                    "target_unit_id": "0a0e7f0c-7f5d-4b0a-8a2e-2d1f7b1f6c11",
                    "relationship": "depends_on",
                }
            ]
        }
    )

    source_unit_id: UUID
    target_unit_id: UUID
    relationship: Relationship | None = Field(default=None, description="same_concept where nothing is said.")


class BridgeRequest(BaseModel):
    """Two units to link, or two banks in which tunnels are to be found within a room."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"source_bank_id": "team-a", "target_bank_id": "team-b", "room": "auth"}]}
    )

    source_unit_id: UUID | None = None
    target_unit_id: UUID | None = None
    relationship: Relationship | None = None
    source_bank_id: Name | None = None
    target_bank_id: Name | None = None
    room: Label | None = None
    hall: Label | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_BRIDGE)] = Field(default=BRIDGE_LIMIT, description="Tunnels at most.")

    @model_validator(mode="after")
    def _one_way(self) -> "BridgeRequest":
        units = self.source_unit_id is not None and self.target_unit_id is not None
        banks = self.source_bank_id is not None and self.target_bank_id is not None and self.room is not None
        if not units and not banks:
            raise ValueError(
                "found neither source_unit_id and target_unit_id, nor source_bank_id, target_bank_id and room; "
                "expected one of them"
            )
        return self


class ClosetRequest(BaseModel):
    """Units of one bank to be summarised."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"bank_id": "team-a", "source_unit_ids": ["6f1f0a7e-3c0e-4a57-9f0e-0c8f6f3b8f10"]}]
        }
    )

    bank_id: Name | None = Field(default=None, description="By default the bank of the first unit.")
    source_unit_ids: list[UUID] = Field(min_length=1, max_length=MAX_SOURCES)
    room: Label | None = Field(default=None, description="By default where most of its units are.")
    hall: Label | None = Field(default=None, description="Likewise.")


class BridgeAnswer(BaseModel):
    """Tunnels that stand now, and how many of them did not before."""

    tunnels: list[dict[str, Any]]
    n_new: int


@link_routes.get("/tunnels", response_model=Page, tags=["tunnels"])
async def tunnels(
    caller: CurrentCaller,
    bank_id: Annotated[Name | None, Query(description="Only tunnels that touch this bank.")] = None,
    limit: PageLimit = 100,
    offset: PageOffset = 0,
) -> dict[str, Any]:
    """Tunnels of which the caller may read both ends, the strongest first."""
    if bank_id is not None:
        require_read(caller, bank_id)
    palace = caller.palace
    readable = None if caller.access.reads_all else await _readable(caller)
    async with palace.pool.connection() as conn:
        found = await page_tunnels(
            conn, palace.place.tenant, readable=readable, bank=bank_id, limit=limit, offset=offset
        )
    return found._asdict() | {"limit": limit, "offset": offset}


@link_routes.post("/tunnels", status_code=201, tags=["tunnels"])
async def create_tunnel(body: TunnelRequest, caller: CurrentCaller) -> dict[str, Any]:
    """Link two units of two banks; no run removes it. One that stands already is answered as it is."""
    made = await _link(caller, body.source_unit_id, body.target_unit_id, body.relationship)
    return _shown(made)[0]


@link_routes.delete("/tunnels/{tunnel_id}", status_code=204, response_class=Response, tags=["tunnels"])
async def delete_tunnel(tunnel_id: UUID, caller: CurrentCaller) -> None:
    """Take a tunnel away, however it came."""
    async with caller.palace.pool.connection() as conn:
        found = await page_tunnels(conn, caller.palace.place.tenant, readable=None, tunnel_id=str(tunnel_id), limit=1)
    ends = [found.items[0][f"{end}_bank_id"] for end in ("source", "target")] if found.items else []
    if not ends or not any(caller.access.reads(bank) for bank in ends):
        raise HTTPException(404, f"there is no tunnel '{tunnel_id}'; see GET /tunnels")
    require_write(caller, *ends)
    await run_in_threadpool(remove_tunnel, caller.palace.place, str(tunnel_id))


@link_routes.post("/bridge", response_model=BridgeAnswer, status_code=201, tags=["tunnels"])
async def bridge(body: BridgeRequest, caller: CurrentCaller) -> dict[str, Any]:
    """Link unit to unit, or find the strongest tunnels between two banks within a room and keep them."""
    if body.source_unit_id is not None and body.target_unit_id is not None:
        made = await _link(caller, body.source_unit_id, body.target_unit_id, body.relationship)
    else:
        made = await _bridge(caller, body)
    return {"tunnels": _shown(made), "n_new": made.n_new}


@link_routes.get("/closets", response_model=Page, tags=["closets"])
async def closets(
    caller: CurrentCaller,
    bank_id: Annotated[Name | None, Query(description="Only closets of this bank.")] = None,
    room: Annotated[Label | None, Query(description="Only closets of this room.")] = None,
    hall: Annotated[Label | None, Query(description="Only closets of this hall.")] = None,
    limit: PageLimit = 100,
    offset: PageOffset = 0,
) -> dict[str, Any]:
    """Closets of banks that the caller may read, with their sources and whether these still read the same."""
    if bank_id is not None:
        require_read(caller, bank_id)
    palace = caller.palace
    readable = None if caller.access.reads_all else await _readable(caller)
    async with palace.pool.connection() as conn:
        found: LinkPage = await page_closets(
            conn,
            palace.place.tenant,
            readable=readable,
            bank=bank_id,
            room=room,
            hall=hall,
            limit=limit,
            offset=offset,
        )
    return found._asdict() | {"limit": limit, "offset": offset}


@link_routes.post("/closets", status_code=201, tags=["closets"])
async def make_closet(body: ClosetRequest, caller: CurrentCaller) -> dict[str, Any]:
    """Summarise units of one bank; no run regroups or drops what comes of it."""
    units = [str(unit_id) for unit_id in dict.fromkeys(body.source_unit_ids)]
    async with caller.palace.pool.connection() as conn:
        stands_in = await unit_banks(conn, caller.palace.place.tenant, units)
    bank = body.bank_id or stands_in.get(units[0])
    if bank is None:
        raise HTTPException(404, f"there is no unit '{units[0]}'")
    require_write(caller, bank)
    await require_bank(caller, bank)
    _check_members(units, stands_in, bank)
    made = await run_in_threadpool(create_closet, caller.palace.place, bank, units, room=body.room, hall=body.hall)
    return _shown_closet(made)


@link_routes.delete("/closets/{closet_id}", status_code=204, response_class=Response, tags=["closets"])
async def delete_closet(closet_id: UUID, caller: CurrentCaller) -> None:
    """Drop a closet for good; its units stay."""
    async with caller.palace.pool.connection() as conn:
        found = await page_closets(conn, caller.palace.place.tenant, readable=None, closet_id=str(closet_id), limit=1)
    bank = found.items[0]["bank_id"] if found.items else None
    if bank is None or not caller.access.reads(bank):
        raise HTTPException(404, f"there is no closet '{closet_id}'; see GET /closets")
    require_write(caller, bank)
    await run_in_threadpool(drop_closet, caller.palace.place, str(closet_id))


def _check_members(units: list[str], stands_in: dict[str, str], bank: str) -> None:
    for unit_id in units:
        if unit_id not in stands_in:
            raise HTTPException(404, f"bank '{bank[:64]}' has no unit '{unit_id}'")
        if stands_in[unit_id] != bank:
            raise HTTPException(422, f"unit '{unit_id}' stands in another bank; expected units of one bank")


def _shown_closet(closet: Closet) -> dict[str, Any]:
    row = closet._asdict()
    return {"id": row.pop("closet_id"), "source_unit_ids": row.pop("unit_ids"), **row}


async def _readable(caller: Caller) -> list[str]:
    async with caller.palace.pool.connection() as conn:
        return caller.access.readable(await registered_banks(conn, caller.palace.place.tenant))


async def _link(caller: Caller, source: UUID, target: UUID, relationship: str | None) -> Bridged:
    ids = [str(source), str(target)]
    async with caller.palace.pool.connection() as conn:
        stands_in = await unit_banks(conn, caller.palace.place.tenant, ids)
    for unit_id in ids:
        if unit_id not in stands_in or not caller.access.reads(stands_in[unit_id]):
            raise HTTPException(404, f"there is no unit '{unit_id}' that this caller may read")
    require_write(caller, *stands_in.values())
    return await run_in_threadpool(add_tunnel, caller.palace.place, ids[0], ids[1], relationship)


async def _bridge(caller: Caller, body: BridgeRequest) -> Bridged:
    assert body.source_bank_id is not None  # the body's own check
    assert body.target_bank_id is not None
    assert body.room is not None
    ends = (body.source_bank_id, body.target_bank_id)
    require_read(caller, *ends)
    require_write(caller, *ends)
    for bank in ends:
        await require_bank(caller, bank)
    return await run_in_threadpool(
        bridge_banks, caller.palace.place, *ends, body.room, hall=body.hall, limit=body.limit
    )


def _shown(made: Bridged) -> list[dict[str, Any]]:
    rows = [tunnel._asdict() for tunnel in made.tunnels]
    return [{"id": row.pop("tunnel_id"), **row} for row in rows]
