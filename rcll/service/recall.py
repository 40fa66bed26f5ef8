"""Recall: filters after the search, yet never a starved answer; layer 0 beside it; closets; one hop of tunnels."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rcll.frames import DEFAULT_HALL, DEFAULT_LAYER, DEFAULT_ROOM
from rcll.service.bodies import RecallRequest
from rcll.service.palace import Caller, Palace
from rcll.stages.recall import ORDINARY_LAYER, ClosetHit, Filters, Hit, Slot, assemble
from rcll.store.recall import FoundUnit, Hop, Question, Searcher, searching, vector_text

#: Units of a room up to which all of them are looked at at once: that costs as much as one search of the indexes.
EXACT_FIRST = 8_000
#: Up to which all are looked at where the indexes did not find enough near ones: beyond, LAST_DEPTH is cheaper.
EXACT_MOST = 50_000
#: How deep the indexes are searched where labels are asked for, and where a room is too large to look at all of it.
FIRST_DEPTH, LAST_DEPTH = 200, 3_200

#: Finds units: searcher, question, how many.
Search = Callable[[Searcher, Question, int], Awaitable[list[Hit]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A recall as it was asked for."""

    bank: str
    query: str
    filters: Filters
    limit: int
    l0_limit: int
    tunnels: bool

    @classmethod
    def of(cls, bank: str, asked: RecallRequest) -> "Ask":
        """A recall of a bank as a client asked for it."""
        return cls(
            bank=bank,
            query=asked.query,
            filters=asked.filters,
            limit=asked.limit,
            l0_limit=asked.l0_limit,
            tunnels=asked.tunnels,
        )


@dataclass(frozen=True, slots=True)
class _Found:
    """Ids and distances of an answer, before the rows are read."""

    slots: list[Slot]
    critical: list[tuple[str, float | None]]
    n_critical: int


async def recall(caller: Caller, ask: Ask, search: Search | None = None) -> dict[str, Any]:
    """Answer a recall.

    Args:
        caller: who asks; the bank is open to them.
        ask: what is asked for.
        search: finds the units; by default the vector search of this module.

    Returns:
        ``results`` (units and closets, nearest first, at most ``limit``), ``critical`` (units of layer 0, nearest
        first, at most ``l0_limit``), ``critical_total``, and ``tunnels`` (far units with the path to them).
    """
    palace = caller.palace
    (vector,) = await palace.space.embed(ask.bank, [ask.query])
    question = Question(ask.bank, vector_text(vector), ask.filters)
    async with searching(palace.pool, palace.place.tenant, has_types=palace.has_types) as searcher:
        found = await _find(searcher, question, ask, search or _own_search(palace))
        near = [hit.id for slot in found.slots for hit in (slot.hit, *slot.folded)]
        near += [unit_id for unit_id, _ in found.critical]
        hops = await _hops(searcher, caller, ask, near)
        rows = await searcher.units([*near, *(hop.far_id for hop in hops)])
        shown = [slot.hit.id for slot in found.slots if isinstance(slot.hit, ClosetHit)]
        closets = await searcher.closet_rows(shown) if shown else {}
    return {
        "results": [result for slot in found.slots if (result := _show_slot(slot, rows, closets))],
        "critical": [show_unit(rows[u], distance) for u, distance in found.critical if u in rows],
        "critical_total": found.n_critical,
        "tunnels": [_show_hop(hop, rows) for hop in hops if hop.far_id in rows],
    }


async def _find(searcher: Searcher, question: Question, ask: Ask, search: Search) -> _Found:
    """Units that come as critical are not repeated, unless nothing but layer 0 is asked for."""
    critical, n_critical = await searcher.critical(question, ask.l0_limit)
    apart = {unit_id for unit_id, _ in critical} if ask.filters.max_layer > 0 else set[str]()
    closets, uncovered = await searcher.closets(question, ask.limit) if ask.filters.want_closets else ([], [])
    n_wanted = ask.limit + min(len(apart), ask.limit // 4)  # few critical units are near at once
    while True:
        hits = await search(searcher, question, n_wanted)
        units = {hit.id: hit for hit in (*uncovered, *hits) if hit.id not in apart}
        slots = assemble(list(units.values()), closets, ask.limit)
        if len(slots) == ask.limit or len(hits) < n_wanted:
            return _Found(slots, critical, n_critical)
        n_wanted *= 2  # folded members left places free


def _own_search(palace: Palace) -> Search:
    """All of a small room; of a larger one what the vector indexes find, unless they meet few of its units.

    A question about a room's own matter is answered by the indexes; one about another has the room's units far behind
    those of others, where an index finds half of them (docs/service.md). The indexes are asked of a small room too
    where units that nobody has filed yet may be in it.
    """
    is_whole = palace.has_types or not palace.has_index  # else the index is of all banks, and may end before this one

    async def search(searcher: Searcher, question: Question, limit: int) -> list[Hit]:
        filters = question.filters
        is_small = filters.are_narrow and await searcher.n_filed(question, EXACT_FIRST + 1) <= EXACT_FIRST
        hits = await searcher.exact(question, limit) if is_small else []
        if len(hits) == limit and not filters.admit(DEFAULT_ROOM, DEFAULT_HALL, DEFAULT_LAYER):
            return hits
        depth = max(FIRST_DEPTH if filters.are_narrow else 0, 2 * limit)
        found = await searcher.nearest(question, limit, depth)
        if is_small or found.n_trusted >= limit or (is_whole and 0 < found.n_seen < depth):
            return _nearest((*hits, *found.hits), limit)
        if not filters.are_narrow or await searcher.n_filed(question, EXACT_MOST + 1) > EXACT_MOST:
            found = await searcher.nearest(question, limit, LAST_DEPTH)
            if len(found.hits) == limit:
                return found.hits
        return _nearest((*found.hits, *await searcher.exact(question, limit)), limit)

    return search


def _nearest(hits: Iterable[Hit], limit: int) -> list[Hit]:
    """Each unit once: two plans of one distance may differ in its last digit."""
    ordered = sorted({hit.id: hit for hit in hits}.values(), key=lambda hit: (hit.distance, hit.id))
    return ordered[:limit]


async def _hops(searcher: Searcher, caller: Caller, ask: Ask, near: Sequence[str]) -> list[Hop]:
    """One hop from each unit, in their order; a far unit once, by the first way to it."""
    if not ask.tunnels:
        return []
    banks = None if caller.access.reads_all else caller.access.readable(await searcher.banks())
    max_layer = max(ask.filters.max_layer, ORDINARY_LAYER)
    first: dict[str, Hop] = {}
    for hop in await searcher.hops(near, banks=banks, max_layer=max_layer, limit=ask.limit):
        first.setdefault(hop.far_id, hop)
    return list(first.values())


def show_unit(unit: FoundUnit, distance: float | None) -> dict[str, Any]:
    """A unit as an answer names it."""
    return {
        "kind": "unit",
        "id": unit.unit_id,
        "bank_id": unit.bank_id,
        "text": unit.text,
        "room": unit.room,
        "hall": unit.hall,
        "layer": unit.layer,
        "score": _score(distance),
        **unit.extras,
    }


def _show_slot(slot: Slot, rows: dict[str, FoundUnit], closets: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    """A result, or None where it has gone since it was found."""
    if unit := rows.get(slot.hit.id):
        return show_unit(unit, slot.hit.distance)
    if not isinstance(slot.hit, ClosetHit) or slot.hit.id not in closets:
        return None
    return {
        "kind": "closet",
        "id": slot.hit.id,
        **closets[slot.hit.id],
        "score": _score(slot.hit.distance),
        "source_unit_ids": list(slot.hit.unit_ids),
        "folded": [show_unit(rows[hit.id], hit.distance) for hit in slot.folded if hit.id in rows],
    }


def _show_hop(hop: Hop, rows: dict[str, FoundUnit]) -> dict[str, Any]:
    tunnel = {"id": hop.tunnel_id, "relationship": hop.relationship, "score": hop.score, "method": hop.method}
    path = [hop.near_id, hop.tunnel_id, hop.far_id]
    return {"path": path, "tunnel": tunnel, "unit": show_unit(rows[hop.far_id], None)}


def _score(distance: float | None) -> float | None:
    """Cosine similarity."""
    return None if distance is None else round(1.0 - distance, 6)
