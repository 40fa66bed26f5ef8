"""Turns groups of units into closets: summaries within the run's budget, vectors, fingerprints."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from rcll.models import (
    CallBudget,
    Pace,
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
from rcll.stages.closets import representatives, source_hash
from rcll.store.closets import WrittenCloset, new_closet_id

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


@dataclass(frozen=True)
class Group:
    """Members (store.extract.MEMBERS) by rank, the most central first, their vectors, and whose closet it is."""

    closet_id: str | None
    bank: str
    room: str
    hall: str
    members: pl.DataFrame
    embeddings: Floats


class Made(NamedTuple):
    """Closets to be written, groups without a summary and why, and what the run has spent with them."""

    closets: list[WrittenCloset]
    failed: list[tuple[Group, str]]
    spent: Spent


def make_closets(settings: Settings, groups: Sequence[Group], spent: Spent, pace: Pace | None = None) -> Made:
    """Summarise and embed groups.

    Args:
        settings: which model and embedder, and the run's budget.
        groups: what to summarise.
        spent: what the run has spent before.
        pace: how patient with a server that refuses; by default as a run that nobody waits for.

    Raises:
        ModelError: no group can be summarised, e.g. because the key is wrong.
    """
    budget = _budget(settings, spent)
    results = summarise_all(make_summariser(settings, budget), [_request(group) for group in groups], pace)
    failed = [(g, r.reason) for g, r in zip(groups, results, strict=True) if isinstance(r, SummaryFailure)]
    made = [(g, r) for g, r in zip(groups, results, strict=True) if isinstance(r, Summary)]
    after = Spent(spent.n_calls + budget.calls, spent.n_tokens + budget.tokens, closed=budget.closed)
    return Made(_closets(settings, made), failed, after)


def preview_closets(settings: Settings, groups: Sequence[Group], spent: Spent) -> tuple[Spent, int]:
    """What a run would have spent after these groups, and how many of them its budget leaves out."""
    if settings.summary_model is None:
        return spent, 0
    requests = [_request(group) for group in groups]
    estimate = estimate_cost(requests, settings.summary_model, settings.prices, _budget(settings, spent))
    after = Spent(
        spent.n_calls + estimate.calls,
        spent.n_tokens + estimate.tokens_in + estimate.tokens_out,
        None if estimate.cost is None else (spent.cost or 0.0) + estimate.cost,
    )
    return after, estimate.n_left_out


def _budget(settings: Settings, spent: Spent) -> CallBudget:
    budget = CallBudget(settings.max_calls - spent.n_calls, settings.max_tokens - spent.n_tokens)
    if spent.closed:
        budget.close(spent.closed)
    return budget


def _request(group: Group) -> SummaryRequest:
    """What a summary is made from: all members in time order, or the representatives of a large group."""
    texts: list[str] = group.members["text"].to_list()
    read = group.members[representatives(texts, PROMPT_CHARS)]
    ordered = read.sort("happened_at", "unit_id", nulls_last=True)
    return SummaryRequest(group.bank, group.room, group.hall, tuple(ordered["text"]), n_total=len(texts))


def _closets(settings: Settings, made: Sequence[tuple[Group, Summary]]) -> list[WrittenCloset]:
    vectors, models = _vectors(settings, made)
    closets: list[WrittenCloset] = []
    for (group, summary), vector, model in zip(made, vectors, models, strict=True):
        ids, hashes = tuple(group.members["unit_id"]), tuple(group.members["text_hash"])
        fingerprint = source_hash(ids, hashes)
        closets.append(
            WrittenCloset(
                closet_id=group.closet_id or new_closet_id(group.bank, group.room, fingerprint),
                bank_id=group.bank,
                room=group.room,
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


def _vectors(settings: Settings, made: Sequence[tuple[Group, Summary]]) -> tuple[list[Floats | None], list[str | None]]:
    """A vector for each summary, and what made it: the bank's own embedder if we have it, else the centroid."""
    if not made:
        return [], []
    sample = made[0][0]
    embedder = choose_embedder(settings, sample.embeddings.shape[1] or None, is_own_space=True)
    probes: list[str] = sample.members["text"].head(PROBES).to_list()
    if embedder is not None and shares_space(embedder, probes, sample.embeddings[:PROBES]):
        return list(embedder.embed([summary.text for _, summary in made])), [embedder.name] * len(made)
    centroids = [centroid(group.embeddings) for group, _ in made]
    return list(centroids), [None if vector is None else "centroid" for vector in centroids]
