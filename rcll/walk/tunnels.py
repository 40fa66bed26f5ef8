"""Digs tunnels room by room between the banks that the configuration allows."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from upath import UPath

from rcll.frames import DEFAULT_ROOM, LINK_UNITS, TUNNELS
from rcll.stages.tunnels import TunnelParams, allowed_banks, link_units
from rcll.store.extract import extract_members, list_banks
from rcll.store.tunnels import filed_units
from rcll.walk.labels import read_plan
from rcll.walk.linked import fingerprint, linked_before
from rcll.walk.place import Place


@dataclass(frozen=True, slots=True)
class RoomUnits:
    """One room of several banks that may be linked; ``unit_ids`` sorted."""

    room: str
    unit_ids: list[str]


def rooms_to_link(place: Place, parts: list[UPath], banks: Sequence[str] | None) -> list[RoomUnits]:
    """Rooms that at least two banks share which may be linked, smallest first.

    Every allowed bank takes part, also where the run covers only some: how many tunnels a unit may have
    depends on all of them. Room ``general`` holds what no rule knew; a tunnel there would mean nothing.
    """
    linkable = _linkable_banks(place)
    if banks and not set(banks) & set(linkable):
        return []
    units = read_plan(parts).select("unit_id", "bank_id", "room").collect()
    others = sorted(set(linkable) - set(banks or linkable))
    if others and place.tenant.migrated:
        with place.database.connect() as conn:
            units = pl.concat([units, filed_units(conn, place.tenant, others)])
    rooms = (
        units.filter(pl.col("room") != DEFAULT_ROOM, pl.col("bank_id").is_in(linkable))
        .group_by("room")
        .agg(pl.col("unit_id").sort(), n_banks=pl.col("bank_id").n_unique(), n_units=pl.len())
        .filter(pl.col("n_banks") > 1)
        .sort("n_units", "room")
    )
    return [RoomUnits(row["room"], row["unit_id"]) for row in rooms.iter_rows(named=True)]


def link_room(place: Place, room: RoomUnits, banks: Sequence[str] | None, *, is_filed: bool) -> pl.DataFrame:
    """Find the tunnels of one room that touch the run's banks.

    Args:
        place: where.
        room: which units.
        banks: the run's banks; None for all.
        is_filed: leave out units that no longer stand in the room; a dry run has not filed them yet.

    Returns:
        frames.TUNNELS.
    """
    with place.database.connect() as conn:
        filed_in = room.room if is_filed else None
        units, embeddings = extract_members(conn, place.tenant, room.unit_ids, room=filed_in)
    if units.is_empty():
        return pl.DataFrame(schema=TUNNELS)
    names: list[str] = units["bank_id"].unique().sort().to_list()
    allowed = allowed_banks(names, place.settings.tunnel_pairs, place.settings.private)
    params = TunnelParams(per_unit=place.settings.tunnels_per_unit)
    units = units.select(LINK_UNITS.names())
    mark = fingerprint(units, embeddings, allowed, params)

    def link() -> pl.DataFrame:
        return link_units(units, embeddings, allowed, params)

    found = linked_before(place.settings, place.tenant.schema, room.room, mark, link)
    if banks is None:
        return found
    chosen = list(banks)
    return found.filter(pl.col("source_bank_id").is_in(chosen) | pl.col("target_bank_id").is_in(chosen))


def _linkable_banks(place: Place) -> list[str]:
    """Banks that may be linked with at least one other, sorted."""
    if not place.settings.tunnel_pairs:
        return []
    with place.database.connect() as conn:
        names = list_banks(conn, place.tenant)
    allowed = allowed_banks(names, place.settings.tunnel_pairs, place.settings.private)
    return [name for name, partners in zip(names, allowed, strict=True) if partners.any()]
