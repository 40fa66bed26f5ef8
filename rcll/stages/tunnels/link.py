"""Finds what two banks both know: mutual nearest neighbours that also share words, few and explained."""

import json
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rcll.errors import RcllError
from rcll.frames import LINK_UNITS, TUNNELS, require_schema
from rcll.stages.similarity import Floats, centred_rows, char_rows, compared_text, word_rows


@dataclass(frozen=True, slots=True)
class TunnelParams:
    """How close two units must be, and how many tunnels they may have."""

    per_unit: int = 3
    """Tunnels of one unit; more would bury its own text in a recall."""
    per_pair_of_banks: int = 1_000
    """Tunnels of one room between two banks; a bound on what a copied bank can bring."""
    n_neighbours: int = 3
    """Both units must be among the other's so many nearest."""
    min_similarity: float = 0.2
    """Mean of dense and lexical similarity."""
    block_rows: int = 1_024
    """Units compared at a time."""


def link_units(
    units: pl.DataFrame, embeddings: Floats, allowed: NDArray[np.bool_], params: TunnelParams
) -> pl.DataFrame:
    """Find the tunnels of one room between the banks that may be linked.

    Args:
        units: frames.LINK_UNITS, a unit once, any order.
        embeddings: (n_units, n_dims) float32; row i belongs to unit i; NaN or zero where missing.
        allowed: (n_banks, n_banks) bool over the sorted distinct bank ids of the units.
        params: how close, and how many.

    Returns:
        frames.TUNNELS, sorted by source, target and relationship.

    Raises:
        RcllError: other columns than expected, or arrays that do not fit the units.
    """
    units = require_schema(units, LINK_UNITS, "units")
    names = units["bank_id"].unique().sort()
    if len(embeddings) != len(units):
        raise RcllError(f"{len(embeddings)} embedding rows for {len(units)} units; expected one each")
    if allowed.shape != (len(names), len(names)):
        raise RcllError(f"the matrix of allowed banks is {allowed.shape}; expected {len(names)} banks both ways")
    order = units["unit_id"].arg_sort().to_numpy()
    units, vectors = units[order], centred_rows(embeddings[order])
    texts = [compared_text(text) for text in units["text"]]
    bank = names.search_sorted(units["bank_id"]).to_numpy()
    present = vectors.any(axis=1) & np.array([bool(text.strip()) for text in texts], dtype=np.bool_)
    keep = np.flatnonzero(present)
    if not len(keep):
        return pl.DataFrame(schema=TUNNELS)
    vectors, bank = vectors[keep], bank[keep]
    terms = [(char_rows([texts[i] for i in keep])), word_rows([texts[i] for i in keep])]
    n, k = len(keep), params.n_neighbours
    best, score = np.full((n, k), -1, dtype=np.intp), np.full((n, k), -np.inf, dtype=np.float32)
    for start in range(0, n, params.block_rows):
        rows = slice(start, start + params.block_rows)
        dense = vectors[rows] @ vectors.T
        lexical = sum((matrix[rows] @ matrix.T).toarray() for matrix in terms)
        similarity = np.where(allowed[np.ix_(bank[rows], bank)], (dense + lexical) / 3, -np.inf).round(5)
        top = np.argsort(-similarity, axis=1, kind="stable")[:, :k]
        best[rows, : top.shape[1]] = top
        score[rows, : top.shape[1]] = np.take_along_axis(similarity, top, axis=1)
    ranks = {
        (row, int(other)): rank
        for row in range(n)
        for rank, other in enumerate(best[row])
        if score[row, rank] >= params.min_similarity
    }
    degree, per_pair, found = np.zeros(n, dtype=int), dict[tuple[int, int], int](), list[tuple[object, ...]]()
    mutual = [(a, b) for a, b in ranks if a < b and (b, a) in ranks]
    for a, b in sorted(mutual, key=lambda p: (-score[p[0], ranks[p]], p)):
        pair = (min(bank[a], bank[b]), max(bank[a], bank[b]))
        if max(degree[a], degree[b]) >= params.per_unit or per_pair.get(pair, 0) >= params.per_pair_of_banks:
            continue
        degree[[a, b]] += 1
        per_pair[pair] = per_pair.get(pair, 0) + 1
        same = texts[keep[a]] == texts[keep[b]]
        value = float(score[a, ranks[a, b]])
        evidence = {"similarity": round(value, 3), "rank": [ranks[a, b] + 1, ranks[b, a] + 1], "rule": "mutual"}
        ends = [units["unit_id"][int(keep[i])] for i in (a, b)] + [units["bank_id"][int(keep[i])] for i in (a, b)]
        kind = "duplicate" if same else "same_concept"
        found.append((*ends, kind, value, json.dumps(evidence, separators=(",", ":"), sort_keys=True)))
    frame = pl.DataFrame(found, schema=TUNNELS, orient="row")
    return frame.sort("source_unit_id", "target_unit_id", "relationship")
