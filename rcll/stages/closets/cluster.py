"""Tight groups of units about one narrow matter inside one room, and what a closet inherits from its group."""

import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from rcll.errors import RcllError
from rcll.frames import GROUPS, HALL_ORDER, ROOM_UNITS, require_schema
from rcll.stages.closets.evidence import Ints, gather_evidence
from rcll.stages.closets.grouping import Room, complete_groups, survey_room
from rcll.stages.closets.params import ClosetParams
from rcll.stages.similarity import Floats


def group_units(units: pl.DataFrame, embeddings: Floats, params: ClosetParams) -> pl.DataFrame:
    """Group the units of one (bank, room).

    Args:
        units: frames.ROOM_UNITS, a unit once, any order.
        embeddings: (n_units, n_dims) float32; row i belongs to unit i; NaN or zero where missing.
        params: how tight and how large groups are.

    Returns:
        frames.GROUPS, sorted by group and rank; groups are numbered by their smallest unit_id. Units that
        belong nowhere, and those without text, are absent.

    Raises:
        RcllError: other columns than expected, or not one embedding row per unit.
    """
    units, embeddings = usable_units(units, embeddings)
    if len(units) < params.min_members:
        return as_groups([])
    with threadpool_limits(limits=1):  # sums in one order, whatever the number of threads
        room = survey_room(units, embeddings, params)
        labels = complete_groups(room, np.full(len(units), -1, np.intp), params)
        groups = ranked_groups(room, labels)
    unit_ids = units["unit_id"].to_list()
    return as_groups([[unit_ids[i] for i in group] for group in groups])


def usable_units(units: pl.DataFrame, embeddings: Floats) -> tuple[pl.DataFrame, Floats]:
    """The units that have a text, sorted by unit_id, with their embedding rows."""
    units = require_schema(units, ROOM_UNITS, "units")
    if len(embeddings) != len(units):
        raise RcllError(f"{len(embeddings)} embedding rows for {len(units)} units; expected one each")
    has_text = units["text"].fill_null("").str.contains(r"\S")
    order = units.with_row_index("row").filter(has_text).sort("unit_id")["row"].to_numpy()
    return units[order], embeddings[order]


def as_groups(groups: list[list[str]]) -> pl.DataFrame:
    """frames.GROUPS of unit ids by rank, numbered by each group's smallest unit_id."""
    rows = [
        (number, unit_id, rank)
        for number, group in enumerate(sorted(groups, key=min))
        for rank, unit_id in enumerate(group)
    ]
    return pl.DataFrame(rows, schema=GROUPS, orient="row")


def ranked_groups(room: Room, labels: Ints) -> list[Ints]:
    """Members of groups 0, 1, ..., the most central first, ties in the order of the units."""
    members = np.flatnonzero(labels >= 0)
    if not len(members):
        return []
    centrality = room.evidence.towards_groups(members, labels[members], labels)
    order = members[np.lexsort((members, -centrality, labels[members]))]
    return np.split(order, np.cumsum(np.bincount(labels[members]))[:-1])


def rank_units(units: pl.DataFrame, embeddings: Floats, params: ClosetParams) -> list[int]:
    """Rows of units (frames.ROOM_UNITS, any order) that make one closet, the most central first, blank texts last."""
    ids = units["unit_id"].to_list()
    usable, vectors = usable_units(units, embeddings)
    ranked = usable["unit_id"].to_list()
    if len(ranked) > 1:
        with threadpool_limits(limits=1):
            evidence = gather_evidence(usable, vectors, params)
            one_group = np.zeros(len(ranked), np.intp)
            centrality = evidence.towards_groups(np.arange(len(ranked)), one_group, one_group)
        ranked = [ranked[i] for i in np.argsort(-centrality, kind="stable")]
    row_of = {unit_id: row for row, unit_id in enumerate(ids)}
    return [row_of[unit_id] for unit_id in [*ranked, *sorted(set(ids) - set(ranked))]]


def closet_hall(halls: Sequence[str]) -> str:
    """The hall that most members bear; ties by the order of the halls in the specification.

    Halls that the specification does not know come after those that it knows, by name.
    """
    if not halls:
        raise RcllError("a closet without members has no hall; expected at least one")
    order = {hall: position for position, hall in enumerate(HALL_ORDER)}
    counts = Counter(halls)
    return min(counts, key=lambda hall: (-counts[hall], order.get(hall, len(order)), hall))


def source_hash(unit_ids: Sequence[str], text_hashes: Sequence[str]) -> str:
    """Fingerprint of a closet's sources, whatever their order: 32 hexadecimal characters."""
    pairs = sorted(zip(unit_ids, text_hashes, strict=True))
    digest = hashlib.sha256("\n".join(f"{unit} {text}" for unit, text in pairs).encode())
    return digest.hexdigest()[:32]
