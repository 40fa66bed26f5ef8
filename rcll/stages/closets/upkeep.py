"""Brings the closets of a room up to date and leaves alone what is still right."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from rcll.frames import require_schema
from rcll.stages.closets.cluster import as_groups, ranked_groups, usable_units
from rcll.stages.closets.grouping import complete_groups, survey_room
from rcll.stages.closets.params import ClosetParams
from rcll.stages.similarity import Floats

#: Sources of the closets that there are, as they read when the closet was written.
CLOSET_SOURCES = pl.Schema({"closet_id": pl.String, "unit_id": pl.String, "text_hash": pl.String})
#: Members that a closet shall have from now on, sorted by closet and rank.
CLOSET_MEMBERS = pl.Schema({"closet_id": pl.String, "unit_id": pl.String, "rank": pl.Int32})


@dataclass(frozen=True)
class ClosetPlan:
    """What becomes of the closets of a room.

    Attributes:
        kept: closets to leave alone, ascending.
        updated: CLOSET_MEMBERS of the closets whose sources changed, all members that remain or joined.
        new: frames.GROUPS of the closets to make.
        dropped: closets to remove, ascending.
    """

    kept: tuple[str, ...]
    updated: pl.DataFrame
    new: pl.DataFrame
    dropped: tuple[str, ...]


def plan_closets(
    existing: pl.DataFrame,
    units: pl.DataFrame,
    embeddings: Floats,
    params: ClosetParams,
    *,
    taken: Collection[str] = (),
) -> ClosetPlan:
    """Compare the closets that there are with the units of the room as they read now.

    A source that is gone or reads otherwise leaves its closet; a closet that lost more than half of its
    sources, or too many to be one, is dropped. Free units first join the closets there are; only the rest is
    grouped anew, and only while the room is over the threshold. Below it, closets are kept for a while
    (``keep_share``), then dropped. Planned again after it was carried out, nothing is left to do.

    Args:
        existing: CLOSET_SOURCES of the room, any order.
        units: frames.ROOM_UNITS, a unit once, any order.
        embeddings: (n_units, n_dims) float32; row i belongs to unit i; NaN or zero where missing.
        params: how tight and how large groups are.
        taken: units that belong to no group, since somebody decided about them; they count for the threshold.
    """
    existing = require_schema(existing, CLOSET_SOURCES, "existing").sort("closet_id", "unit_id")
    n_units = len(units)
    units, embeddings = usable_units(units, embeddings)
    is_free = ~units["unit_id"].is_in(list(taken))
    units, embeddings = units.filter(is_free), embeddings[is_free.to_numpy()]
    survivors = _survivors(existing, units, params) if n_units >= params.keep_share * params.threshold else {}
    groups = _grown(survivors, units, embeddings, params, may_found=n_units >= params.threshold)
    sources = existing.group_by("closet_id").agg("unit_id")
    before = {closet: set[str](members) for closet, members in sources.iter_rows()}
    after = dict(zip(survivors, groups, strict=False))
    # A source that was edited may well come back; the closet still tells of its old text.
    kept = tuple(c for c, members in after.items() if set(members) == before[c] == set(survivors[c]))
    rows = [
        (closet, unit_id, rank)
        for closet, members in after.items()
        if closet not in kept
        for rank, unit_id in enumerate(members)
    ]
    return ClosetPlan(
        kept=kept,
        updated=pl.DataFrame(rows, schema=CLOSET_MEMBERS, orient="row"),
        new=as_groups(groups[len(survivors) :]),
        dropped=tuple(sorted(set(before) - set(after))),
    )


def _survivors(existing: pl.DataFrame, units: pl.DataFrame, params: ClosetParams) -> dict[str, list[str]]:
    """Closets that go on, ascending, and the sources of each that still read the same; no unit in two."""
    still = (
        existing.with_columns(n_sources=pl.len().over("closet_id"))
        .join(units.select("unit_id", "text_hash"), on=["unit_id", "text_hash"], how="semi")
        .sort("closet_id", "unit_id")
        .unique("unit_id", keep="first", maintain_order=True)
    )
    enough = (pl.len() >= params.min_members) & (2 * pl.len() >= pl.col("n_sources").first())
    kept = still.group_by("closet_id", maintain_order=True).agg("unit_id", enough.alias("goes_on"))
    return {closet: members for closet, members, goes_on in kept.iter_rows() if goes_on}


def _grown(
    survivors: dict[str, list[str]], units: pl.DataFrame, embeddings: Floats, params: ClosetParams, *, may_found: bool
) -> list[list[str]]:
    """Members by rank of the surviving closets, in their order, then of the new groups."""
    if not (survivors or may_found) or len(units) < params.min_members:
        return []
    unit_ids = units["unit_id"].to_list()
    row = {unit_id: i for i, unit_id in enumerate(unit_ids)}
    labels = np.full(len(units), -1, np.intp)
    for number, members in enumerate(survivors.values()):
        labels[[row[unit_id] for unit_id in members]] = number
    with threadpool_limits(limits=1):  # sums in one order, whatever the number of threads
        room = survey_room(units, embeddings, params)
        labels = complete_groups(room, labels, params, may_found=may_found)
        groups = ranked_groups(room, labels)
    return [[unit_ids[i] for i in group] for group in groups]
