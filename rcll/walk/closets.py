"""Brings the closets of one room up to date: group, compare, summarise, embed, write."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from rcll.frames import ROOM_UNITS
from rcll.models import (
    CallBudget,
    Summary,
    SummaryFailure,
    SummaryRequest,
    estimate_cost,
    make_summariser,
    summarise_all,
)
from rcll.models.embed import centroid, choose_embedder, shares_space
from rcll.models.prompt import PROMPT_CHARS
from rcll.settings import Settings
from rcll.stages.closets import (
    CLOSET_SOURCES,
    ClosetParams,
    ClosetPlan,
    closet_hall,
    plan_closets,
    representatives,
    source_hash,
)
from rcll.store.closets import (
    ClosetChanges,
    Status,
    WrittenCloset,
    closet_sources,
    new_closet_id,
    rooms_with_closets,
    settle_closets,
)
from rcll.store.extract import extract_members
from rcll.store.lease import Lease
from rcll.walk.archive import archive_sources
from rcll.walk.place import Place
from rcll.walk.summary import room_sizes

#: Units that tell whether an embedder makes the vectors of the bank.
PROBES = 5

Floats = np.ndarray


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run has spent on its model so far; ``closed`` says why nothing more may be asked."""

    n_calls: int = 0
    n_tokens: int = 0
    cost: float | None = None
    closed: str = ""


@dataclass(frozen=True, slots=True)
class CondensedRoom:
    """What became, or by a plan would become, of the closets of one room.

    ``spent`` is the run's, this room included; ``failures`` holds a reason for each closet not made.
    """

    spent: Spent
    n_new: int = 0
    n_updated: int = 0
    n_gone: int = 0
    n_kept: int = 0
    n_archived: int = 0
    failures: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Group:
    """Members (store.extract.MEMBERS) by rank, the most central first, their vectors, and whose closet it is."""

    closet_id: str | None
    members: pl.DataFrame
    embeddings: Floats

    @property
    def hall(self) -> str:
        return closet_hall(self.members["hall"].to_list())


def rooms_to_condense(place: Place, parts: list[Path], banks: Sequence[str] | None) -> list[tuple[str, str]]:
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
    requests = [_request(bank, room, group) for group in groups]
    n_new, n_updated = plan.new["group"].n_unique(), plan.updated["closet_id"].n_unique()
    if lease is None:
        preview = _preview(place.settings, requests, spent)
        n_archived = sum(len(group.members) - 1 for group in groups) if place.settings.archive_sources else 0
        return CondensedRoom(preview, n_new, n_updated, len(plan.dropped), len(plan.kept), n_archived)
    budget = _budget(place.settings, spent)
    results = summarise_all(make_summariser(place.settings, budget), requests)
    failed = [(g, r.reason) for g, r in zip(groups, results, strict=True) if isinstance(r, SummaryFailure)]
    made = [(g, r) for g, r in zip(groups, results, strict=True) if isinstance(r, Summary)]
    closets = _closets(place, bank, room, made)
    stuck = [group.closet_id for group, _ in failed if group.closet_id]
    marked: dict[str, Status] = {**dict.fromkeys(plan.kept, "fresh"), **dict.fromkeys(stuck, "failed")}
    changes = ClosetChanges(plan.dropped, marked, closets)
    settled = settle_closets(place.database, place.tenant, changes, lease, banks=[bank])
    return CondensedRoom(
        Spent(spent.n_calls + budget.calls, spent.n_tokens + budget.tokens, closed=budget.closed),
        n_new=n_new - (len(failed) - len(stuck)) - len(settled.unwritten),
        n_updated=n_updated - len(stuck),
        n_gone=settled.n_gone,
        n_kept=len(plan.kept),
        n_archived=archive_sources(place, bank, room, lease),
        failures=(*(reason for _, reason in failed), *settled.unwritten),
    )


def _plan(
    place: Place, bank: str, room: str, planned: pl.DataFrame, *, is_filed: bool
) -> tuple[ClosetPlan, list[_Group]]:
    """The plan of the room, and the groups that need a summary: those to update, then the new ones."""
    existing = pl.DataFrame(schema=CLOSET_SOURCES)
    with place.database.connect() as conn:
        unit_ids = planned["unit_id"].to_list()
        units, embeddings = extract_members(conn, place.tenant, unit_ids, room=room if is_filed else None)
        if place.tenant.migrated:
            existing = closet_sources(conn, place.tenant, bank, room)
    if not is_filed:  # halls weigh in the grouping, and a plan has not written them yet
        units = units.drop("hall").join(planned, on="unit_id", how="left", maintain_order="left")
    params = ClosetParams(threshold=place.settings.closet_threshold, by_hall=place.settings.by_hall)
    plan = plan_closets(existing, units.select(ROOM_UNITS.names()), embeddings, params)
    row_of = {unit_id: row for row, unit_id in enumerate(units["unit_id"])}
    groups: list[_Group] = []
    for found, key in ((plan.updated, "closet_id"), (plan.new, "group")):
        for members in found.partition_by(key, maintain_order=True):
            rows = [row_of[unit_id] for unit_id in members["unit_id"]]
            closet_id = members["closet_id"][0] if key == "closet_id" else None
            groups.append(_Group(closet_id, units[rows], embeddings[rows]))
    return plan, groups


def _budget(settings: Settings, spent: Spent) -> CallBudget:
    budget = CallBudget(settings.max_calls - spent.n_calls, settings.max_tokens - spent.n_tokens)
    if spent.closed:
        budget.close(spent.closed)
    return budget


def _preview(settings: Settings, requests: Sequence[SummaryRequest], spent: Spent) -> Spent:
    """What a run would have spent after this room, as far as its budget goes."""
    if settings.summary_model is None:
        return spent
    affordable = requests[: max(0, settings.max_calls - spent.n_calls)]
    estimate = estimate_cost(affordable, settings.summary_model, settings.prices)
    return Spent(
        spent.n_calls + estimate.calls,
        spent.n_tokens + estimate.tokens_in + estimate.tokens_out,
        None if estimate.cost is None else (spent.cost or 0.0) + estimate.cost,
    )


def _request(bank: str, room: str, group: _Group) -> SummaryRequest:
    """What a summary is made from: all members in time order, or the representatives of a large group."""
    texts: list[str] = group.members["text"].to_list()
    read = group.members[representatives(texts, PROMPT_CHARS)]
    ordered = read.sort("happened_at", "unit_id", nulls_last=True)
    return SummaryRequest(bank, room, group.hall, tuple(ordered["text"]), n_total=len(texts))


def _closets(place: Place, bank: str, room: str, made: Sequence[tuple[_Group, Summary]]) -> list[WrittenCloset]:
    vectors, models = _vectors(place, made)
    closets: list[WrittenCloset] = []
    for (group, summary), vector, model in zip(made, vectors, models, strict=True):
        ids, hashes = tuple(group.members["unit_id"]), tuple(group.members["text_hash"])
        fingerprint = source_hash(ids, hashes)
        closets.append(
            WrittenCloset(
                closet_id=group.closet_id or new_closet_id(bank, room, fingerprint),
                bank_id=bank,
                room=room,
                hall=group.hall,
                title=summary.title,
                summary=summary.text,
                embedding=vector,
                embedding_model=model,
                unit_ids=ids,
                text_hashes=hashes,
                source_hash=fingerprint,
                model=summary.model,
                is_extractive=summary.is_extractive,
                n_read=summary.n_read,
            )
        )
    return closets


def _vectors(place: Place, made: Sequence[tuple[_Group, Summary]]) -> tuple[list[Floats | None], list[str | None]]:
    """A vector for each summary, and what made it: the bank's own embedder if we have it, else the centroid."""
    if not made:
        return [], []
    sample = made[0][0]
    embedder = choose_embedder(place.settings, sample.embeddings.shape[1] or None, is_own_space=True)
    probes: list[str] = sample.members["text"].head(PROBES).to_list()
    if embedder is not None and shares_space(embedder, probes, sample.embeddings[:PROBES]):
        return list(embedder.embed([summary.text for _, summary in made])), [embedder.name] * len(made)
    centroids = [centroid(group.embeddings) for group, _ in made]
    return list(centroids), [None if vector is None else "centroid" for vector in centroids]
