"""Finds the pairs of units worth a closer look: each unit's nearest by cosine, all pairs or by coarse cells."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rcll.stages.similarity import Floats, pair_cosines, unit_rows
from rcll.stages.tunnels.params import TunnelParams
from rcll.stages.tunnels.policy import Bools

Ints = NDArray[np.intp]

#: Components of vectors are multiples of 1 / _GRID. Products of two of them are multiples of 2**-22, and so are
#: all their partial sums, which stay below 2: float32 holds them without rounding. A cosine is therefore the
#: same number whatever the order of additions, the blocks, the processor or the number of threads; it is off
#: by .0002 from that of the unrounded vectors.
_GRID = 2**11
#: Rows and columns of one product: 4 MB, which stays in the cache.
_ROWS, _COLUMNS = 2_048, 512
#: A mean this little shorter than its vectors: they are all alike, and differ by rounding only.
_ROUNDING = 1e-6
#: Units with which the cells are learnt, for each cell, and how often they are moved to the mean of their own.
_LEARNT_FROM, _MOVES = 32, 4
_SAMPLED_PAIRS = 400_000
#: Spread of cosines in rooms of several embedders (wordllama .11, MiniLM .13), and how many pairs it counts
#: for: in a room of ten units the few that match are half of what could be measured.
_USUAL_SPREAD, _USUAL_PAIRS = 0.12, 200
#: The mean of a few units is mostly themselves: two about their own mean are always opposite. So many units
#: about nothing in particular are taken along.
_UNSEEN = 5
_NOBODY, _LOW = -1, 0xFFFFFFFF
#: How often the neighbours of neighbours are looked at after the cells. The first round finds two thirds of what is
#: missing, a second one hardly any.
_ROUNDS = 1


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


def centred(embeddings: Floats, rows: Ints) -> Floats:
    """Some rows, of length one about their mean, on the grid; zero where there is no vector or nothing of its own.

    All texts of a room share its topic, and with it a large common part of their vectors. Done block by block:
    a room of 200,000 has 300 MB of vectors, and one copy of them is enough.
    """
    found = np.empty((len(rows), embeddings.shape[1]), dtype=np.float32)
    blocks = [slice(i, i + _ROWS) for i in range(0, len(rows), _ROWS)]
    for block in blocks:
        found[block] = unit_rows(embeddings[rows[block]])
    present: NDArray[np.bool_] = np.any(found, axis=1)
    total, n_present = found.sum(axis=0, dtype=np.float64), int(present.sum())
    if np.linalg.norm(total) > n_present * (1 - _ROUNDING):
        present[:] = n_present == 1
    mean = (total / (n_present + _UNSEEN)).astype(np.float32)
    for block in blocks:
        found[block] = on_grid(unit_rows(np.where(present[block, None], found[block] - mean, 0)))
    return found


def on_grid(rows: Floats) -> Floats:
    """Round rows of length one in place, so that their products are exact."""
    rows *= _GRID
    np.rint(rows, out=rows)
    rows /= _GRID
    return rows


class Cosines(NamedTuple):
    """How alike two units of the room are by chance: the cosines of pairs drawn at random."""

    mean: float
    spread: float
    sample: Floats

    def exceeded_by(self, share: float) -> float:
        """Cosine that so large a share of the pairs exceeds, -1 where that is all of them."""
        return float(np.quantile(self.sample, 1 - share)) if len(self.sample) and share < 1 else -1.0


def sample_cosines(vectors: Floats, seed: int) -> Cosines:
    """Look at pairs of the room: all of a small one, some of a large one."""
    present = np.flatnonzero(vectors.any(axis=1))
    if len(present) ** 2 <= 2 * _SAMPLED_PAIRS:
        left, right = np.triu_indices(len(present), 1)
    else:
        left, right = np.random.default_rng(seed).integers(0, len(present), (2, _SAMPLED_PAIRS))
    apart = left != right
    cosine = pair_cosines(vectors, present[left[apart]], vectors, present[right[apart]])
    if not len(cosine):
        return Cosines(0.0, _USUAL_SPREAD, cosine)
    weight = len(cosine) / (len(cosine) + _USUAL_PAIRS)
    spread = np.sqrt(weight * cosine.var(dtype=np.float64) + (1 - weight) * _USUAL_SPREAD**2)
    return Cosines(weight * float(cosine.mean(dtype=np.float64)), float(spread), cosine)


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
    around = _Nearest(len(vectors), params.n_neighbours, _related(allowed), bank)
    abroad = _Nearest(len(vectors), params.n_abroad, allowed, bank)

    def compare(rows: Ints, columns: Ints) -> None:
        for i, j in _blocks(len(rows), len(columns)):
            cosine = vectors[rows[i]] @ vectors[columns[j]].T
            bar = np.minimum(around.bar(rows[i], floor), abroad.bar(rows[i], floor))
            row, column = np.nonzero(cosine > bar[:, None])
            found = rows[i][row], columns[j][column], cosine[row, column]
            around.take(*found)
            abroad.take(*found)

    present = np.flatnonzero(vectors.any(axis=1))
    if len(present) <= params.exact_units:
        compare(present, present)
    else:
        cells = find_cells(vectors, present, params)
        for home, visitors in cells:
            compare(np.concatenate([home, visitors]), home)
        for _ in range(_ROUNDS):
            around.take_reverse()
            for home, _ in cells:
                compare(home, around.around(home))
    return _united([around.edges(), abroad.edges()])


def add_pairs(pairs: Pairs, met: tuple[Ints, Ints], vectors: Floats, bank: Ints, allowed: Bools, floor: float) -> Pairs:
    """Pairs with some more that met otherwise than by vectors, under the same conditions."""
    may_meet = _related(allowed)[bank[met[0]], bank[met[1]]]
    left, right = met[0][may_meet], met[1][may_meet]
    cosine = pair_cosines(vectors, left, vectors, right)
    near = cosine > max(floor, 0)
    return _united([(pairs.left, pairs.right, pairs.cosine), (left[near], right[near], cosine[near])])


def _related(allowed: Bools) -> Bools:
    return allowed | np.eye(len(allowed), dtype=np.bool_)


class _Nearest:
    """The k nearest of each unit so far; a key holds the cosine above the row, so that larger is nearer."""

    def __init__(self, n_units: int, k: int, may_meet: Bools, bank: Ints) -> None:
        self.keys = np.full((n_units, k), _NOBODY, dtype=np.int64)
        self.may_meet, self.bank = may_meet, bank

    def bar(self, rows: Ints, floor: float) -> Floats:
        """Cosine that a newcomer must exceed."""
        worst = self.keys[rows, -1]
        return np.where(worst == _NOBODY, max(floor, 0), (worst >> 32) / _GRID**2).astype(np.float32)

    def take(self, row: Ints, column: Ints, cosine: Floats) -> None:
        """Let those in that are nearer than what their rows have."""
        good = (row != column) & self.may_meet[self.bank[row], self.bank[column]]
        row, keys = row[good], ((cosine[good] * _GRID**2).astype(np.int64) << 32) | (_LOW - column[good])
        good = keys > self.keys[row, -1]
        row, keys = row[good], keys[good]
        touched = np.unique(row)
        k = self.keys.shape[1]
        owner = np.concatenate([row, np.repeat(touched, k)])
        keys = np.concatenate([keys, self.keys[touched].ravel()])
        order = np.lexsort((-keys, owner))
        owner, keys = owner[order], keys[order]
        again = (owner[1:] == owner[:-1]) & (keys[1:] == keys[:-1]) & (keys[1:] != _NOBODY)
        owner, keys = np.delete(owner, np.flatnonzero(again) + 1), np.delete(keys, np.flatnonzero(again) + 1)
        nth = np.arange(len(owner)) - np.searchsorted(owner, owner)
        kept = nth < k
        self.keys[owner[kept], nth[kept]] = keys[kept]

    def take_reverse(self) -> None:
        """Let each unit know those who name it."""
        row, column, cosine = self.edges()
        self.take(column, row, cosine)

    def around(self, rows: Ints) -> Ints:
        """The neighbours of some units and the neighbours of these, ascending."""
        first = self._named(rows)
        return np.union1d(first, self._named(first))

    def edges(self) -> tuple[Ints, Ints, Floats]:
        """Row, neighbour and cosine of all that were found."""
        row, nth = np.nonzero(self.keys != _NOBODY)
        keys = self.keys[row, nth]
        return row, (_LOW - (keys & _LOW)).astype(np.intp), ((keys >> 32) / _GRID**2).astype(np.float32)

    def _named(self, rows: Ints) -> Ints:
        keys = self.keys[rows]
        return np.unique(_LOW - (keys[keys != _NOBODY] & _LOW)).astype(np.intp)


def _united(found: list[tuple[Ints, Ints, Floats]]) -> Pairs:
    row, column, cosine = (np.concatenate(parts) for parts in zip(*found, strict=True))
    left, right = np.minimum(row, column), np.maximum(row, column)
    order = np.lexsort((cosine, right, left))
    left, right, cosine = left[order], right[order], cosine[order]
    first = np.ones(len(left), dtype=np.bool_)
    first[1:] = (left[1:] != left[:-1]) | (right[1:] != right[:-1])
    return Pairs(left[first], right[first], cosine[first])


def _blocks(n_rows: int, n_columns: int) -> Iterator[tuple[slice, slice]]:
    for i in range(0, n_rows, _ROWS):
        for j in range(0, n_columns, _COLUMNS):
            yield slice(i, i + _ROWS), slice(j, j + _COLUMNS)


def find_cells(vectors: Floats, present: Ints, params: TunnelParams) -> list[tuple[Ints, Ints]]:
    """Cut the units into cells by nearest centre; of each cell its units, and the others that look into it."""
    centres = _centres(vectors, present, params)
    near = np.concatenate(
        [_best(vectors[present[i : i + _ROWS]] @ centres.T, params.n_cells) for i in range(0, len(present), _ROWS)]
    )
    unit, slot = np.divmod(np.argsort(near.ravel(), kind="stable"), near.shape[1])
    bounds = np.searchsorted(np.sort(near.ravel()), np.arange(1, len(centres)))
    cells = zip(np.split(present[unit], bounds), np.split(slot == 0, bounds), strict=True)
    return [(units[is_home], units[~is_home]) for units, is_home in cells]


def _centres(vectors: Floats, present: Ints, params: TunnelParams) -> Floats:
    """Centres of cells, (n_cells, d): units drawn at random, moved to the mean of what lies nearest to them.

    More are drawn where more units are, so that cells fill evenly.
    """
    n_cells = len(present) // params.cell_units
    drawn = np.random.default_rng(params.seed).permutation(present)[: n_cells * _LEARNT_FROM]
    centres = vectors[drawn[:n_cells]]
    for _ in range(_MOVES):
        home = np.concatenate(
            [(vectors[drawn[i : i + _ROWS]] @ centres.T).argmax(axis=1) for i in range(0, len(drawn), _ROWS)]
        )
        order = np.argsort(home, kind="stable")
        filled, first = np.unique(home[order], return_index=True)
        centres[filled] = np.add.reduceat(vectors[drawn[order]], first, axis=0)
        centres = on_grid(unit_rows(centres))
    return centres


def _best(values: Floats, n_best: int) -> NDArray[np.int32]:
    """Columns of the largest values of each row, the largest first."""
    n_best = min(n_best, values.shape[1])
    best = np.argpartition(-values, n_best - 1, axis=1)[:, :n_best]
    order = np.argsort(-np.take_along_axis(values, best, axis=1), axis=1, kind="stable")
    return np.take_along_axis(best, order, axis=1).astype(np.int32)
