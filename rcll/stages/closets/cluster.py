"""Finds tight groups of units about one narrow matter inside one room."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.cluster import MiniBatchKMeans

from rcll.errors import RcllError
from rcll.frames import GROUPS, HALL_ORDER, ROOM_UNITS, require_schema
from rcll.stages.similarity import Floats, centred_rows, char_rows, compared_text, word_rows


@dataclass(frozen=True, slots=True)
class ClosetParams:
    """How tight and how large groups are."""

    min_similarity: float = 0.16
    """Mean similarity at which two groups still belong together."""
    min_members: int = 3
    """A closet of two saves nobody any reading."""
    max_members: int = 40
    """More no longer fit one paragraph; the specification's upper bound."""
    by_hall: bool = False
    """Keep halls apart; off, since one matter often has a fact, a warning and an event."""
    cell_units: int = 800
    """Units in a coarse cell, inside which all pairs are compared."""
    seed: int = 0
    """Start of the coarse clustering, so that the same room gives the same groups."""


def group_units(units: pl.DataFrame, embeddings: Floats, params: ClosetParams) -> pl.DataFrame:
    """Group the units of one (bank, room).

    Args:
        units: frames.ROOM_UNITS, a unit once, any order.
        embeddings: (n_units, n_dims) float32; row i belongs to unit i; NaN or zero where missing.
        params: how tight and how large groups are.

    Returns:
        frames.GROUPS, sorted by group and rank; groups are numbered by their smallest unit_id. Units that
        belong nowhere are absent.

    Raises:
        RcllError: other columns than expected, or not one embedding row per unit.
    """
    units = require_schema(units, ROOM_UNITS, "units")
    if len(embeddings) != len(units):
        raise RcllError(f"{len(embeddings)} embedding rows for {len(units)} units; expected one each")
    order = units["unit_id"].arg_sort().to_numpy()
    units, vectors = units[order], centred_rows(embeddings[order])
    texts = [compared_text(text) for text in units["text"]]
    halls = units["hall"].to_list() if params.by_hall else [""] * len(texts)
    groups: list[list[int]] = []
    for hall in sorted(set(halls)):
        rows = np.array([i for i, h in enumerate(halls) if h == hall and texts[i].strip()], dtype=np.intp)
        for cell in _cells(vectors, rows, params):
            groups += _groups_in_cell(vectors, texts, cell, params)
    return _as_frame(groups, units["unit_id"].to_list())


def _cells(vectors: Floats, rows: np.ndarray, params: ClosetParams) -> list[np.ndarray]:
    if len(rows) <= params.cell_units:
        return [rows]
    n_cells = -(-len(rows) // (params.cell_units // 2))
    model = MiniBatchKMeans(n_cells, random_state=params.seed, batch_size=4096, n_init=1, max_iter=20)
    labels = model.fit_predict(vectors[rows])
    cells: list[np.ndarray] = []
    for label in range(n_cells):
        cell = rows[labels == label]
        cells += np.array_split(cell, -(-len(cell) // params.cell_units)) if len(cell) else []
    return cells


def _groups_in_cell(vectors: Floats, texts: list[str], cell: np.ndarray, params: ClosetParams) -> list[list[int]]:
    if len(cell) < params.min_members:
        return []
    inside = [texts[i] for i in cell]
    lexical = [(rows @ rows.T).toarray() for rows in (char_rows(inside), word_rows(inside))]
    dense = vectors[cell] @ vectors[cell].T
    present = vectors[cell].any(axis=1)
    lexical_mean = sum(lexical) / len(lexical)
    both = present[:, None] & present[None, :]
    similarity = np.where(both, (dense + 2 * lexical_mean) / 3, lexical_mean)
    labels = _linked(similarity, params.min_similarity)
    found: list[list[int]] = []
    for label in range(1, labels.max() + 1):
        members = np.flatnonzero(labels == label)
        for part in _bounded(similarity, members, params.max_members):
            if len(part) >= params.min_members:
                found.append([int(i) for i in cell[_by_centrality(similarity, part)]])
    return found


def _linked(similarity: np.ndarray, threshold: float) -> np.ndarray:
    distance = np.clip(1 - (similarity + similarity.T) / 2, 0, None)
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform(distance, checks=False), "average")
    return fcluster(tree, 1 - threshold, "distance")


def _bounded(similarity: np.ndarray, members: np.ndarray, limit: int) -> list[np.ndarray]:
    """Cut an overlong group into parts of at most ``limit``, its most alike members together."""
    if len(members) <= limit:
        return [members]
    inside = similarity[np.ix_(members, members)]
    distance = np.clip(1 - inside, 0, None)
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform(distance, checks=False), "average")
    labels = fcluster(tree, 2, "maxclust")
    parts = [members[labels == label] for label in (1, 2)]
    if not all(len(part) for part in parts):  # identical texts: no cut is better than another
        parts = [members[:limit], members[limit:]]
    return [piece for part in parts for piece in _bounded(similarity, part, limit)]


def _by_centrality(similarity: np.ndarray, members: np.ndarray) -> np.ndarray:
    mean = similarity[np.ix_(members, members)].mean(axis=1).round(5)
    return members[np.argsort(-mean, kind="stable")]


def _as_frame(groups: list[list[int]], unit_ids: list[str]) -> pl.DataFrame:
    rows = [
        (number, unit_ids[member], rank)
        for number, group in enumerate(sorted(groups, key=min))
        for rank, member in enumerate(group)
    ]
    return pl.DataFrame(rows, schema=GROUPS, orient="row")


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
