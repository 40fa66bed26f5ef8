"""Tunnels that somebody asks for: from unit to unit, or between two banks within a room."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import numpy as np
import polars as pl

from rcll.errors import InputError
from rcll.frames import DEFAULT_ROOM, LINK_UNITS, TUNNELS
from rcll.stages.tunnels import TunnelParams, allowed_banks, link_units
from rcll.store.connect import Connection
from rcll.store.explicit import dig_explicit, forget, record_tunnel
from rcll.store.extract import extract_members, list_banks
from rcll.store.ledger import match_units
from rcll.store.tunnels import (
    Tunnel,
    banks_of_units,
    insert_tunnels,
    list_tunnels,
    remove_tunnels,
    units_in_room,
    with_ids,
)
from rcll.walk.ids import find_id
from rcll.walk.place import Place, places_of

#: Relationship where nobody names one.
SAME_CONCEPT = "same_concept"
#: Room of the column ``tunnels.relationship``.
MAX_RELATIONSHIP = 256
#: Tunnels that a bridge between two banks makes where nobody says how many.
BRIDGE_LIMIT = 20
#: Units of two banks in a room that a bridge looks at; more belong into a run with ``tunnel_pairs``.
MAX_BRIDGED_UNITS = 50_000


class Bridged(NamedTuple):
    """Tunnels that were asked for, as they stand now, and how many of them there were not before."""

    tunnels: list[Tunnel]
    n_new: int


def add_tunnel(place: Place, source: str, target: str, relationship: str | None = None) -> Bridged:
    """Link two units of two banks and remember that somebody wants it: no run removes it.

    One that rcll had found by itself becomes somebody's own, with its score and evidence.

    Args:
        place: where both units are.
        source: id of one unit.
        target: id of the other.
        relationship: what they are to each other; same_concept where it is None.

    Raises:
        InputError: no unit ids, one unit twice, a unit that is not here, two units of one bank, or a
            relationship of no or too many characters.
    """
    source, target = _uuid(source, "unit"), _uuid(target, "unit")
    named = _relationship(relationship)
    with _open(place) as conn:
        _check_ends(place, conn, source, target)
        with conn.transaction():
            tunnel = record_tunnel(conn, place.tenant, source, target, named)
            is_new = not list_tunnels(conn, place.tenant, tunnel_ids=[tunnel])
            dig_explicit(conn, place.tenant, [tunnel])
        made = list_tunnels(conn, place.tenant, tunnel_ids=[tunnel])
    return Bridged(made, int(is_new))


def remove_tunnel(place: Place, tunnel_id: str) -> Tunnel | None:
    """Take a tunnel away, however it came, and forget that somebody wanted it.

    Returns:
        The tunnel as it was, None where it was only waiting for a missing unit. A later run finds one of method
        auto again while its evidence stands.

    Raises:
        InputError: no such tunnel here.
    """
    found = _uuid(tunnel_id, "tunnel")
    with _open(place) as conn, conn.transaction():
        before = list_tunnels(conn, place.tenant, tunnel_ids=[found])
        remove_tunnels(conn, place.tenant, [found])
        is_forgotten = bool(forget(conn, place.tenant, [found]))
    if not before and not is_forgotten:
        raise InputError(f"schema '{place.tenant.schema}' has no tunnel '{found}'; see rcll tunnels list --json")
    return before[0] if before else None


def bridge_banks(
    place: Place, one: str, other: str, room: str, *, hall: str | None = None, limit: int = BRIDGE_LIMIT
) -> Bridged:
    """Find what two banks both know in a room, and keep the strongest as tunnels that somebody asked for.

    The banks need not stand in ``tunnel_pairs``; a private one never takes part.

    Args:
        place: where both banks are.
        one: a bank.
        other: another.
        room: any but the fallback room, where a likeness means nothing.
        hall: only units of this hall.
        limit: how many tunnels at most.

    Raises:
        InputError: an unknown bank, the same bank twice, a private one, the fallback room, no units there, or
            more than a request should look at.
    """
    with _open(place) as conn:
        _check_banks(place, conn, one, other, room)
        unit_ids = units_in_room(conn, place.tenant, [one, other], room)
        if len(unit_ids) > MAX_BRIDGED_UNITS:
            raise InputError(
                f"banks '{one}' and '{other}' have {len(unit_ids):,} units in room '{room}'; a bridge looks at "
                f"{MAX_BRIDGED_UNITS:,} at most; set tunnel_pairs and say rcll reorganize --only tunnels"
            )
        members, embeddings = extract_members(conn, place.tenant, unit_ids, room=room)
        found = _strongest(place, members, embeddings, hall, limit)
        tunnel_ids, n_new = _keep(place, conn, found)
        made = list_tunnels(conn, place.tenant, tunnel_ids=tunnel_ids, limit=len(tunnel_ids))
    return Bridged(made, n_new)


def place_of_units(places: Sequence[Place], *given: str) -> tuple[Place, list[str]]:
    """The tenant that holds all of these units, and their full ids; the first digits of an id are enough.

    Raises:
        InputError: no unit id, a unit that nobody has, or units of two tenants.
    """
    found = [
        find_id(places, each, match_units, what="unit", hint="the id of a unit of a migrated bank") for each in given
    ]
    schemas = sorted({place.tenant.schema for place, _ in found})
    if len(schemas) > 1:
        raise InputError(f"the units are in schemas {', '.join(schemas)}; expected one (tunnels never cross tenants)")
    return found[0][0], [unit_id for _, unit_id in found]


def place_of_banks(places: Sequence[Place], *banks: str) -> Place:
    """The tenant that holds all of these banks.

    Raises:
        InputError: an unknown bank, banks of two tenants, or of several alike.
    """
    chosen = places_of(places, banks)
    homes = [place for place, held in chosen if set(held or ()) == set(banks)]
    if not homes:
        raise InputError(f"banks '{banks[0]}' and '{banks[-1]}' are of two tenants; tunnels never cross tenants")
    return _only(homes, f"bank '{banks[0]}'")


def _only(homes: Sequence[Place], what: str) -> Place:
    if len(homes) > 1:
        raise InputError(f"{what} is in schema {_schemas(homes)} alike; name one with --schema")
    return homes[0]


def _schemas(places: Sequence[Place]) -> str:
    return " and ".join(f"'{place.tenant.schema}'" for place in places)


def _uuid(value: str, what: str) -> str:
    try:
        return str(UUID(value))
    except ValueError:
        shown = "rcll tunnels list --json"
        raise InputError(f"'{value[:60]}' is no {what} id; expected a uuid, as {shown} shows") from None


def _relationship(relationship: str | None) -> str:
    named = SAME_CONCEPT if relationship is None else relationship.strip()
    if not 0 < len(named) <= MAX_RELATIONSHIP or "\0" in named:
        raise InputError(
            f"relationship '{named[:60]}' has {len(named)} characters; expected 1 to {MAX_RELATIONSHIP}, "
            f"such as same_concept, extends, depends_on or contradicts"
        )
    return named


def _open(place: Place) -> Connection:
    if not place.tenant.migrated:
        raise InputError(f"schema '{place.tenant.schema}' is not migrated; run rcll migrate first")
    return place.database.connect()


def _check_ends(place: Place, conn: Connection, source: str, target: str) -> None:
    if source == target:
        raise InputError(f"unit {source} stands at both ends; expected two units of two banks")
    banks = banks_of_units(conn, place.tenant, [source, target])
    for unit_id in (source, target):
        if unit_id not in banks:
            raise InputError(
                f"schema '{place.tenant.schema}' has no unit {unit_id}; expected both units in one schema "
                f"(tunnels never cross tenants)"
            )
    if banks[source] == banks[target]:
        raise InputError(f"both units stand in bank '{banks[source]}'; expected units of two banks")


def _check_banks(place: Place, conn: Connection, one: str, other: str, room: str) -> None:
    if one == other:
        raise InputError(f"bank '{one}' is named twice; expected two banks")
    if room == DEFAULT_ROOM:
        raise InputError(f"room '{DEFAULT_ROOM}' holds what no rule knew; expected a room of one topic")
    names = list_banks(conn, place.tenant)
    for bank in (one, other):
        if bank not in names:
            raise InputError(f"schema '{place.tenant.schema}' has no bank '{bank}'; see rcll status")
    open_ones = allowed_banks(sorted((one, other)), [(one, other)], place.settings.private)
    if not open_ones.any():
        raise InputError(f"bank '{one}' or '{other}' is private (RCLL_PRIVATE); link single units instead")


def _strongest(
    place: Place, members: pl.DataFrame, embeddings: np.ndarray, hall: str | None, limit: int
) -> pl.DataFrame:
    """Tunnels between the two banks (frames.TUNNELS plus ``tunnel_id``), both ends in the hall, the best of them."""
    if members["bank_id"].n_unique() < 2:  # noqa: PLR2004 - two ends
        return with_ids(pl.DataFrame(schema=TUNNELS))
    params = TunnelParams(per_unit=place.settings.tunnels_per_unit)
    found = link_units(members.select(LINK_UNITS.names()), embeddings, ~np.eye(2, dtype=np.bool_), params)
    if hall is not None:
        in_hall = members.filter(pl.col("hall") == hall)["unit_id"].to_list()
        found = found.filter(pl.col("source_unit_id").is_in(in_hall), pl.col("target_unit_id").is_in(in_hall))
    return with_ids(found.sort("score", descending=True, maintain_order=True).head(limit))


def _keep(place: Place, conn: Connection, found: pl.DataFrame) -> tuple[Sequence[str], int]:
    """Write tunnels as somebody's own, in one transaction; their ids, and how many there were not."""
    tunnel_ids: list[str] = found["tunnel_id"].to_list()
    with conn.transaction():
        n_new = insert_tunnels(conn, place.tenant, found, None)
        for row in found.iter_rows(named=True):
            record_tunnel(conn, place.tenant, row["source_unit_id"], row["target_unit_id"], row["relationship"])
        dig_explicit(conn, place.tenant, tunnel_ids)
    return tunnel_ids, n_new
