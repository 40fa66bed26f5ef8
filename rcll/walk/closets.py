"""Brings the closets of one room up to date: group, compare, summarise, embed, write."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from rcll.frames import ROOM_UNITS
from rcll.models import CallBudget, Summary, SummaryFailure, SummaryRequest, make_summariser, summarise_all
from rcll.models.embed import Embedder, centroid, choose_embedder, shares_space
from rcll.models.prompt import PROMPT_CHARS
from rcll.stages.closets import ClosetParams, closet_hall, group_units, representatives, source_hash
from rcll.store.closets import NewCloset, closet_sources, drop_closets, rooms_with_closets, write_closets
from rcll.store.extract import extract_members
from rcll.store.lease import Lease
from rcll.walk.place import Place
from rcll.walk.summary import room_sizes

#: A room that has closets keeps them until it falls this far below the threshold: no flapping at the edge.
KEEP_SHARE = 0.8
#: Units that tell whether an embedder makes the vectors of the bank.
PROBES = 5

Floats = np.ndarray


@dataclass(frozen=True, slots=True)
class CondensedRoom:
    """What became of the closets of one room; ``failures`` holds a reason for each group without one."""

    n_new: int = 0
    n_gone: int = 0
    n_kept: int = 0
    n_calls: int = 0
    failures: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Group:
    """Members (store.extract.MEMBERS) in order of rank, the most central first, and their vectors."""

    members: pl.DataFrame
    embeddings: Floats

    @property
    def source_hash(self) -> str:
        return source_hash(self.members["unit_id"].to_list(), self.members["text_hash"].to_list())

    @property
    def unit_ids(self) -> set[str]:
        return set(self.members["unit_id"])


def rooms_to_condense(place: Place, parts: list[Path], banks: Sequence[str] | None) -> list[tuple[str, str]]:
    """(bank, room) pairs over the threshold, and those that have closets already; sorted."""
    threshold = place.settings.closet_threshold
    oversized = {key for key, n_units in room_sizes(parts).items() if n_units >= threshold}
    if not place.tenant.migrated:
        return sorted(oversized)
    with place.database.connect() as conn:
        return sorted(oversized | set(rooms_with_closets(conn, place.tenant, banks)))


def condense_room(
    place: Place, bank: str, room: str, unit_ids: Sequence[str], *, lease: Lease | None, calls_left: int
) -> CondensedRoom:
    """Make the closets of a room what its groups are now.

    A group whose sources are the same keeps its closet: no write, no call. Where a new group has no summary,
    the closets that its members had stay.

    Args:
        place: where.
        bank: whose room.
        room: its name.
        unit_ids: units that stand, or by a plan will stand, in it.
        lease: held on the bank; None only counts what would be done.
        calls_left: model calls that the run may still make.
    """
    groups = _find_groups(place, room, unit_ids, is_filed=lease is not None)
    existing = _existing(place, bank, room)
    present = {group.source_hash for group in groups}
    new = [group for group in groups if group.source_hash not in existing]
    gone = {key: closet for key, closet in existing.items() if key not in present}
    if lease is None:
        n_calls = min(len(new), calls_left) if place.settings.summary_model else 0
        return CondensedRoom(len(new), len(gone), len(existing) - len(gone), n_calls)
    budget = CallBudget(calls_left, place.settings.max_tokens)
    results = summarise_all(make_summariser(place.settings, budget), [_request(bank, room, g) for g in new])
    failed = [(g, r.reason) for g, r in zip(new, results, strict=True) if isinstance(r, SummaryFailure)]
    made = [(g, r) for g, r in zip(new, results, strict=True) if isinstance(r, Summary)]
    embedder = _embedder(place, made[0][0]) if made else None
    closets = [_closet(bank, room, group, summary, embedder) for group, summary in made]
    unwritten = write_closets(place.database, place.tenant, closets, lease)
    spared = set[str]().union(*(group.unit_ids for group, _ in failed))
    dropped = [closet_id for closet_id, members in gone.values() if not members & spared]
    n_gone = drop_closets(place.database, place.tenant, bank, dropped, lease)
    return CondensedRoom(
        n_new=len(closets) - len(unwritten),
        n_gone=n_gone,
        n_kept=len(existing) - n_gone,
        n_calls=budget.calls,
        failures=(*(reason for _, reason in failed), *unwritten),
    )


def _find_groups(place: Place, room: str, unit_ids: Sequence[str], *, is_filed: bool) -> list[_Group]:
    with place.database.connect() as conn:
        units, embeddings = extract_members(conn, place.tenant, unit_ids, room=room if is_filed else None)
    if len(units) < KEEP_SHARE * place.settings.closet_threshold:
        return []
    found = group_units(units.select(ROOM_UNITS.names()), embeddings, ClosetParams())
    row_of = {unit_id: row for row, unit_id in enumerate(units["unit_id"])}
    rows = [[row_of[u] for u in group["unit_id"]] for group in found.partition_by("group", maintain_order=True)]
    return [_Group(units[members], embeddings[members]) for members in rows]


def _existing(place: Place, bank: str, room: str) -> dict[str, tuple[str, set[str]]]:
    """Closets of the room: source hash to id and unit ids."""
    if not place.tenant.migrated:
        return {}
    with place.database.connect() as conn:
        sources = closet_sources(conn, place.tenant, bank, room)
    grouped = sources.group_by("closet_id", "source_hash").agg("unit_id").sort("closet_id")
    return {key: (closet_id, set(unit_ids)) for closet_id, key, unit_ids in grouped.iter_rows()}


def _request(bank: str, room: str, group: _Group) -> SummaryRequest:
    """What a summary is made from: all members in time order, or the representatives of a large group."""
    texts: list[str] = group.members["text"].to_list()
    read = group.members[representatives(texts, PROMPT_CHARS)]
    ordered = read.sort("happened_at", "unit_id", nulls_last=True)
    hall = closet_hall(group.members["hall"].to_list())
    return SummaryRequest(bank, room, hall, tuple(ordered["text"]), n_total=len(texts))


def _embedder(place: Place, sample: _Group) -> Embedder | None:
    """The embedder that makes this bank's vectors, or None: take the centroid."""
    dims = sample.embeddings.shape[1] or None
    embedder = choose_embedder(place.settings, dims, is_own_space=True)
    texts: list[str] = sample.members["text"].head(PROBES).to_list()
    if embedder is None or not shares_space(embedder, texts, sample.embeddings[:PROBES]):
        return None
    return embedder


def _closet(bank: str, room: str, group: _Group, summary: Summary, embedder: Embedder | None) -> NewCloset:
    vector = centroid(group.embeddings) if embedder is None else embedder.embed([summary.text])[0]
    return NewCloset(
        bank_id=bank,
        room=room,
        hall=closet_hall(group.members["hall"].to_list()),
        title=summary.title,
        summary=summary.text,
        embedding=vector,
        embedding_model=None if vector is None else "centroid" if embedder is None else embedder.name,
        unit_ids=tuple(group.members["unit_id"]),
        text_hashes=tuple(group.members["text_hash"]),
        source_hash=group.source_hash,
        model=summary.model,
        is_extractive=summary.is_extractive,
        n_read=summary.n_read,
    )
