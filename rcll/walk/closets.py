"""Brings the closets of one room up to date: group, compare, summarise, embed, write."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from upath import UPath

from rcll.frames import ROOM_UNITS
from rcll.stages.closets import CLOSET_SOURCES, ClosetParams, ClosetPlan, closet_hall, plan_closets
from rcll.store.closets import ClosetChanges, Status, closet_sources, rooms_with_closets, settle_closets
from rcll.store.explicit import spoken_for
from rcll.store.extract import extract_members
from rcll.store.lease import Lease
from rcll.walk.archive import archive_sources
from rcll.walk.making import Group, Spent, make_closets, preview_closets
from rcll.walk.place import Place
from rcll.walk.summary import room_sizes


@dataclass(frozen=True, slots=True)
class CondensedRoom:
    """What became, or by a plan would become, of the closets of one room.

    ``spent`` is the run's, this room included; ``n_archived`` units were moved to the archive layer; ``n_left_out``
    groups of a plan are beyond its budget; ``failures`` holds a reason for each closet that a run did not make.
    """

    spent: Spent
    n_new: int = 0
    n_updated: int = 0
    n_gone: int = 0
    n_kept: int = 0
    n_archived: int = 0
    n_left_out: int = 0
    failures: tuple[str, ...] = ()


def rooms_to_condense(place: Place, parts: list[UPath], banks: Sequence[str] | None) -> list[tuple[str, str]]:
    """(bank, room) pairs over the threshold, and those that have closets already; sorted."""
    threshold = place.settings.closet_threshold
    oversized = {key for key, n_units in room_sizes(parts).items() if n_units >= threshold}
    if not place.tenant.migrated:
        return sorted(oversized)
    with place.database.connect() as conn:
        return sorted(oversized | set(rooms_with_closets(conn, place.tenant, banks)))


def condense_room(
    place: Place, bank: str, room: str, planned: pl.DataFrame, *, lease: Lease | None, spent: Spent
) -> CondensedRoom:
    """Make the closets of a room what its groups are now.

    A closet whose sources are the same is left alone: no write, no call. Where a summary fails, the closet
    that was there stays, marked failed.

    Args:
        place: where.
        bank: whose room.
        room: its name.
        planned: unit_id and hall of the units that stand, or by a plan will stand, in it.
        lease: held on the bank; None only counts what would be done.
        spent: what the run has spent on its model.
    """
    plan, groups = _plan(place, bank, room, planned, is_filed=lease is not None)
    n_new, n_updated = plan.new["group"].n_unique(), plan.updated["closet_id"].n_unique()
    if lease is None:
        n_archived = sum(len(group.members) - 1 for group in groups) if place.settings.archive_sources else 0
        after, n_left_out = preview_closets(place.settings, groups, spent)
        n_gone, n_kept = len(plan.dropped), len(plan.kept)
        return CondensedRoom(after, n_new, n_updated, n_gone, n_kept, n_archived, n_left_out)
    made = make_closets(place.settings, groups, spent)
    stuck = [group.closet_id for group, _ in made.failed if group.closet_id]
    marked: dict[str, Status] = {**dict.fromkeys(plan.kept, "fresh"), **dict.fromkeys(stuck, "failed")}
    changes = ClosetChanges(plan.dropped, marked, made.closets)
    settled = settle_closets(place.database, place.tenant, changes, lease, banks=[bank])
    return CondensedRoom(
        made.spent,
        n_new=n_new - (len(made.failed) - len(stuck)) - len(settled.unwritten),
        n_updated=n_updated - len(stuck),
        n_gone=settled.n_gone,
        n_kept=len(plan.kept),
        n_archived=archive_sources(place, bank, room, lease),
        failures=(*(reason for _, reason in made.failed), *settled.unwritten),
    )


def _plan(
    place: Place, bank: str, room: str, planned: pl.DataFrame, *, is_filed: bool
) -> tuple[ClosetPlan, list[Group]]:
    """The plan of the room, and the groups that need a summary: those to update, then the new ones."""
    existing, taken = pl.DataFrame(schema=CLOSET_SOURCES), set[str]()
    with place.database.connect() as conn:
        unit_ids = planned["unit_id"].to_list()
        units, embeddings = extract_members(conn, place.tenant, unit_ids, room=room if is_filed else None)
        if place.tenant.migrated:
            existing = closet_sources(conn, place.tenant, bank, room)
            taken = spoken_for(conn, place.tenant)
    if not is_filed:  # halls weigh in the grouping, and a plan has not written them yet
        units = units.drop("hall").join(planned, on="unit_id", how="left", maintain_order="left")
    params = ClosetParams(threshold=place.settings.closet_threshold, by_hall=place.settings.by_hall)
    plan = plan_closets(existing, units.select(ROOM_UNITS.names()), embeddings, params, taken=taken)
    row_of = {unit_id: row for row, unit_id in enumerate(units["unit_id"])}
    groups: list[Group] = []
    for found, key in ((plan.updated, "closet_id"), (plan.new, "group")):
        for group in found.partition_by(key, maintain_order=True):
            rows = [row_of[unit_id] for unit_id in group["unit_id"]]
            closet_id = group["closet_id"][0] if key == "closet_id" else None
            members = units[rows]
            groups.append(
                Group(closet_id, bank, room, closet_hall(members["hall"].to_list()), members, embeddings[rows])
            )
    return plan, groups
