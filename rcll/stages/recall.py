"""Puts an answer together: the nearest units and closets, members folded under the closets that cover them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

#: Layers of the archive come only on request.
ORDINARY_LAYER, ARCHIVE_LAYER = 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What a recall asks for; None lets every room or hall in."""

    rooms: tuple[str, ...] | None = None
    halls: tuple[str, ...] | None = None
    max_layer: int = ORDINARY_LAYER

    @property
    def are_narrow(self) -> bool:
        """Whether some of the units are asked for, and not all but the archive."""
        return self.rooms is not None or self.halls is not None or self.max_layer < ORDINARY_LAYER

    @property
    def want_closets(self) -> bool:
        """A closet stands for units of the ordinary layer."""
        return self.max_layer >= ORDINARY_LAYER

    def admit(self, room: str, hall: str, layer: int) -> bool:
        """Whether a unit of this label is asked for."""
        is_room = self.rooms is None or room in self.rooms
        return is_room and (self.halls is None or hall in self.halls) and layer <= self.max_layer


@dataclass(frozen=True, slots=True)
class Hit:
    """A unit or closet that was found; the smaller the distance, the better."""

    id: str
    distance: float


@dataclass(frozen=True, slots=True)
class ClosetHit(Hit):
    """A closet whose sources still read as when it was made, by rank."""

    unit_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Slot:
    """One result: a unit, or a closet with the found units that it covers, nearest first.

    A closet stands where the nearest of them would.
    """

    hit: Hit
    folded: tuple[Hit, ...] = ()

    @property
    def order(self) -> tuple[float, str]:
        """Nearest first, then by id."""
        return min(hit.distance for hit in (self.hit, *self.folded)), self.hit.id


def assemble(units: Sequence[Hit], closets: Sequence[ClosetHit], limit: int) -> list[Slot]:
    """Choose the nearest units and closets; a unit that a chosen closet covers takes no place of its own.

    Args:
        units: each once, any order.
        closets: each once, any order.
        limit: results at most; fewer only where there are no more.

    Returns:
        Slots, nearest first. Where two chosen closets cover a unit it is folded under the nearer.
    """
    covered_by: dict[str, ClosetHit] = {}
    chosen: dict[str, Hit] = {}
    folded: dict[str, list[Hit]] = {}
    for hit in sorted([*closets, *units], key=lambda hit: (hit.distance, hit.id)):
        if cover := covered_by.get(hit.id):
            folded[cover.id].append(hit)
        elif len(chosen) < limit:
            chosen[hit.id] = hit
            if isinstance(hit, ClosetHit):
                members = [unit_id for unit_id in hit.unit_ids if unit_id not in covered_by]
                covered_by |= dict.fromkeys(members, hit)
                folded[hit.id] = [chosen.pop(unit_id) for unit_id in _in_order(chosen, members)]
    return sorted((Slot(hit, tuple(folded.get(hit.id, ()))) for hit in chosen.values()), key=lambda slot: slot.order)


def _in_order(chosen: dict[str, Hit], members: Collection[str]) -> list[str]:
    """Those of the chosen that are among the members, as they were chosen."""
    wanted = set(members)
    return [unit_id for unit_id in chosen if unit_id in wanted]
