"""Finds the pairs of units worth a closer look: each unit's nearest by cosine, all pairs or by coarse cells."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rcll.stages.similarity import Floats, pair_cosines, unit_rows
from rcll.stages.tunnels.params import TunnelParams
from rcll.stages.tunnels.policy import Bools

Ints = NDArray[np.intp]

#: Cosines are compared on this grid, so that the last bits of a product, which depend on the number of
#: threads, seldom decide; ties go to the smaller row.
_GRID = 2**16
#: Rows and columns of one product: 4 MB, which stays in the cache.
_ROWS, _COLUMNS = 2_048, 512
#: A centred vector shorter than this is rounding: the room's vectors are all alike.
_ROUNDING = 1e-3
_SAMPLED_PAIRS = 100_000
#: Spread of cosines in rooms of several embedders (wordllama .11, MiniLM .13), and how many pairs it counts
#: for: in a room of ten units the few that match are half of what could be measured.
_USUAL_SPREAD, _USUAL_PAIRS = 0.12, 200
_NOBODY = -1


@dataclass(frozen=True)
class Pairs:
    """Pairs of units of one bank or of two that may be linked.

    Attributes:
        left: (n_pairs,) row of one unit; ``left < right``, sorted by both, each pair once.
        right: (n_pairs,) row of the other.
        cosine: (n_pairs,) float32 cosine of the centred vectors, rounded.
    """

    left: Ints
    right: Ints
    cosine: Floats

    def __len__(self) -> int:
        return len(self.left)


def centred(embeddings: Floats) -> Floats:
    """Rows of length one about the room's mean; all zero where there is no vector or nothing of its own.

    All texts of a room share its topic, and with it a large common part of their vectors.
    """
    rows = unit_rows(embeddings)
    present = rows.any(axis=1)
    if present.any():
        rows -= rows.sum(axis=0, dtype=np.float64).astype(np.float32) / np.float32(present.sum())
    rows[~present | (np.einsum("ij,ij->i", rows, rows) < _ROUNDING**2)] = 0
    return unit_rows(rows)


def mean_and_spread(vectors: Floats, seed: int) -> tuple[float, float]:
    """Mean and standard deviation of the cosine of two units of the room, drawn at random."""
    present = np.flatnonzero(vectors.any(axis=1))
    if len(present) ** 2 <= _SAMPLED_PAIRS:
        left, right = np.triu_indices(len(present), 1)
    else:
        left, right = np.random.default_rng(seed).integers(0, len(present), (2, _SAMPLED_PAIRS))
    apart = left != right
    cosine = pair_cosines(vectors, present[left[apart]], vectors, present[right[apart]]).astype(np.float64)
    if not len(cosine):
        return 0.0, _USUAL_SPREAD
    weight = len(cosine) / (len(cosine) + _USUAL_PAIRS)
    spread = np.sqrt(weight * cosine.var() + (1 - weight) * _USUAL_SPREAD**2)
    return round(float(cosine.mean()), 5), round(float(spread), 5)


def nearest_pairs(vectors: Floats, bank: Ints, allowed: Bools, floor: float, params: TunnelParams) -> Pairs:
    """Pair each unit with its nearest: ``n_neighbours`` of any bank, and ``n_abroad`` of linkable ones.

    Units of two banks that may not be linked never meet, not even to compare third ones.

    Args:
        vectors: (n, d) as ``centred`` gives them; zero rows take no part.
        bank: (n,) bank of each unit, an index into ``allowed``.
        allowed: (n_banks, n_banks) bool.
        floor: smallest cosine that counts.
        params: how many, and how a large room is searched.
    """
    around = _Nearest(len(vectors), params.n_neighbours, floor)
    abroad = _Nearest(len(vectors), params.n_abroad, floor)
    related = _related(allowed)
    for rows, columns in _portions(vectors, params):
        cosine = vectors[rows] @ vectors[columns].T
        np.rint(cosine * _GRID, out=cosine)
        cosine[rows[:, None] == columns[None, :]] = -np.inf
        around.offer(rows, columns, cosine, related, bank)
        abroad.offer(rows, columns, cosine, allowed, bank)
    return _united([around.edges(), abroad.edges()])


def add_pairs(
    pairs: Pairs, met: tuple[Ints, Ints], vectors: Floats, bank: Ints, allowed: Bools, floor: float
) -> Pairs:
    """Pairs with some more that met otherwise than by vectors, under the same conditions."""
    may_meet = _related(allowed)[bank[met[0]], bank[met[1]]]
    left, right = met[0][may_meet], met[1][may_meet]
    cosine = (np.rint(pair_cosines(vectors, left, vectors, right) * _GRID) / _GRID).astype(np.float32)
    near = cosine > max(floor, 0)
    return _united([(pairs.left, pairs.right, pairs.cosine), (left[near], right[near], cosine[near])])


def _related(allowed: Bools) -> Bools:
    return allowed | np.eye(len(allowed), dtype=np.bool_)


class _Nearest:
    """The k nearest of each unit so far; a key holds the cosine above the row, so that larger is nearer."""

    def __init__(self, n_units: int, k: int, floor: float) -> None:
        self.floor = np.float32(max(floor, 0) * _GRID)
        self.keys = np.full((n_units, k), _NOBODY, dtype=np.int64)

    def offer(self, rows: Ints, columns: Ints, cosine: Floats, may_meet: Bools, bank: Ints) -> None:
        """Take those of the columns that are nearer than what the rows have."""
        worst = self.keys[rows, -1]
        bar = np.where(worst == _NOBODY, self.floor, (worst >> 32).astype(np.float32))
        row, column = np.nonzero(cosine > bar[:, None])
        meets = may_meet[bank[rows[row]], bank[columns[column]]]
        row, column = row[meets], column[meets]
        if not len(row):
            return
        keys = (cosine[row, column].astype(np.int64) << 32) | (0xFFFFFFFF - columns[column])
        touched, place = np.unique(row, return_inverse=True)
        k = self.keys.shape[1]
        owner = np.concatenate([place, np.repeat(np.arange(len(touched)), k)])
        keys = np.concatenate([keys, self.keys[rows[touched]].ravel()])
        order = np.lexsort((-keys, owner))
        owner, keys = owner[order], keys[order]
        nth = np.arange(len(owner)) - np.searchsorted(owner, owner)
        kept = nth < k
        self.keys[rows[touched][owner[kept]], nth[kept]] = keys[kept]

    def edges(self) -> tuple[Ints, Ints, Floats]:
        """Row, neighbour and cosine of all that were found."""
        row, nth = np.nonzero(self.keys != _NOBODY)
        keys = self.keys[row, nth]
        return row, (0xFFFFFFFF - (keys & 0xFFFFFFFF)).astype(np.intp), ((keys >> 32) / _GRID).astype(np.float32)


def _united(found: list[tuple[Ints, Ints, Floats]]) -> Pairs:
    row, column, cosine = (np.concatenate(parts) for parts in zip(*found, strict=True))
    left, right = np.minimum(row, column), np.maximum(row, column)
    order = np.lexsort((cosine, right, left))
    left, right, cosine = left[order], right[order], cosine[order]
    first = np.ones(len(left), dtype=np.bool_)
    first[1:] = (left[1:] != left[:-1]) | (right[1:] != right[:-1])
    return Pairs(left[first], right[first], cosine[first])


def _portions(vectors: Floats, params: TunnelParams) -> Iterator[tuple[Ints, Ints]]:
    """Rows and columns to compare; no row meets a column twice."""
    present = np.flatnonzero(vectors.any(axis=1))
    if len(present) <= params.exact_units:
        yield from _blocks(present, present)
        return
    home, near = _cells(vectors, present, params)
    for cell in range(int(home.max()) + 1):
        yield from _blocks(present[(near == cell).any(axis=1)], present[home == cell])


def _blocks(rows: Ints, columns: Ints) -> Iterator[tuple[Ints, Ints]]:
    for i in range(0, len(rows), _ROWS):
        for j in range(0, len(columns), _COLUMNS):
            yield rows[i : i + _ROWS], columns[j : j + _COLUMNS]


def _cells(vectors: Floats, present: Ints, params: TunnelParams) -> tuple[Ints, Ints]:
    """The cell of each unit and the cells in which it looks, (n,) and (n, n_cells).

    A cell is what lies nearest to one of some units drawn at random: more are drawn where more units are,
    so cells fill evenly, and nothing is learnt that could differ with the number of threads.
    """
    n_cells = len(present) // params.cell_units
    drawn = np.random.default_rng(params.seed).choice(len(present), n_cells, replace=False)
    centres = vectors[present[np.sort(drawn)]]
    n_near = min(params.n_cells, n_cells)
    near = np.empty((len(present), n_near), dtype=np.int32)
    for i in range(0, len(present), _ROWS):
        cosine = vectors[present[i : i + _ROWS]] @ centres.T
        best = np.argpartition(-cosine, n_near - 1, axis=1)[:, :n_near]
        order = np.argsort(-np.take_along_axis(cosine, best, axis=1), axis=1, kind="stable")
        near[i : i + _ROWS] = np.take_along_axis(best, order, axis=1)
    return near[:, 0].astype(np.intp), near
