"""Finds each unit's most alike units: all pairs in an ordinary room, coarse cells in a large one."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.cluster import MiniBatchKMeans

from rcll.stages.closets.evidence import Evidence, Ints
from rcll.stages.closets.params import ClosetParams
from rcll.stages.similarity import N_STEMS, N_TRIGRAMS, Floats

_ROWS_AT_ONCE = 512
#: Columns of the sketch of the trigram rows in which a large room is searched.
_SKETCH = 512
#: What a dot product of sketches counts against one of vectors: it is the noisier of the two.
_TRUST = 0.6
#: Neighbours that a unit brings home from one cell, and those of all cells that are then compared exactly.
_FROM_CELL, _COMPARED = 32, 72
#: Units with which the coarse cells are learnt, for each cell.
_LEARNT_FROM = 60
#: Log odds that decide between equals, and nothing else.
_TIE = 0.005
_GOLDEN = (5**0.5 - 1) / 2
#: A cell that holds this many times the mean (thousands of repeats) is searched in parts.
_OVERFULL = 4


@dataclass(frozen=True)
class Neighbours:
    """The nearest units of each unit.

    Attributes:
        units: (n, k) the nearest first; -1 where there are fewer.
        likeness: (n, k) float32 log odds from vectors and words alone; -inf where there are fewer.
    """

    units: Ints
    likeness: Floats


def find_neighbours(room: Evidence, params: ClosetParams) -> Neighbours:
    """Find the ``params.n_neighbours`` most alike units of each unit."""
    if len(room) <= params.exact_units:
        return _among_all(room, params.n_neighbours)
    return _among_cells(room, params)


def baseline(neighbours: Neighbours, params: ClosetParams) -> Floats:
    """What each unit has in common with its whole neighbourhood, (n,).

    The mean likeness of the neighbours that are hardly of the unit's own matter, shrunk towards the room's
    mean where the neighbourhood is nearly the whole room.
    """
    n_units, n_found = neighbours.units.shape
    if not n_found:
        return np.zeros(n_units, np.float32)
    first = params.n_own if n_found > 2 * params.n_own else 0
    others = neighbours.likeness[:, first:]
    found = np.isfinite(others)
    mean = np.where(found, others, 0).sum(axis=1) / np.maximum(found.sum(axis=1), 1)
    own = 1 - n_found / n_units
    return (params.baseline * (own * mean + (1 - own) * mean.mean())).astype(np.float32)


def _among_all(room: Evidence, n_neighbours: int) -> Neighbours:
    n_found = min(n_neighbours, max(0, len(room) - 1))
    units = np.full((len(room), n_found), -1, np.intp)
    likeness = np.full((len(room), n_found), -np.inf, np.float32)
    turned, ties = room.lexical.T.tocsr(), _tie_breakers(len(room))
    for start, end in _spans(len(room) if n_found else 0, _ROWS_AT_ONCE):
        rows = np.arange(start, end)
        found = room.dense[rows] @ room.dense.T + (room.lexical[rows] @ turned).toarray()
        found += ties[rows] @ ties.T
        found[np.arange(len(rows)), rows] = -np.inf
        units[rows], likeness[rows] = _best(found, np.arange(len(room)), n_found)
    return Neighbours(units, likeness)


def _tie_breakers(n_units: int) -> Floats:
    """Rows (n, 2) whose dot product prefers, among equals, another few for each unit.

    Otherwise thousands of copies would all name the same few copies as their neighbours. The points lie on a
    circle, each a golden angle from the one before, which spreads any subset of them.
    """
    angle = 2 * np.pi * ((np.arange(n_units) * _GOLDEN) % 1)
    return (np.sqrt(_TIE) * np.stack([np.cos(angle), np.sin(angle)], axis=1)).astype(np.float32)


def _best(found: Floats, columns: Ints, n_best: int) -> tuple[Ints, Floats]:
    """The n largest values of each row, largest first, ties by column."""
    if found.shape[1] > n_best:
        kept = np.sort(np.argpartition(found, -n_best, axis=1)[:, -n_best:], axis=1)
    else:
        kept = np.broadcast_to(np.arange(found.shape[1]), found.shape)
    value = np.take_along_axis(found, kept, axis=1)
    order = np.argsort(-value, axis=1, kind="stable")
    return columns[np.take_along_axis(kept, order, axis=1)], np.take_along_axis(value, order, axis=1)


def _among_cells(room: Evidence, params: ClosetParams) -> Neighbours:
    """Search the cells around each unit by vectors and a sketch of the words, then compare the best exactly."""
    sketch = np.hstack([_sketch(room.lexical), _tie_breakers(len(room))])
    near = _nearest_cells(room.dense, sketch, params)
    best, guess = _search_cells(room.dense, sketch, near, _OVERFULL * params.cell_units)
    return _compared(room, best, guess, params.n_neighbours)


def _search_cells(
    dense: Floats, sketch: Floats, near: NDArray[np.int32], limit: int
) -> tuple[NDArray[np.int32], Floats]:
    """The units that seem most alike among those of a unit's cells, (n, _COMPARED) and how much, unsorted."""
    units = np.full((len(dense), near.shape[1] * _FROM_CELL), -1, np.int32)
    guess = np.full(units.shape, -np.inf, np.float32)

    def search(cell: int) -> None:
        members = np.flatnonzero(near[:, 0] == cell)
        for slot in range(near.shape[1]):
            visitors, start = np.flatnonzero(near[:, slot] == cell), slot * _FROM_CELL
            for rows, columns in _portions(visitors, members, limit, is_home=slot == 0):
                found = (dense[rows] @ dense[columns].T + sketch[rows] @ sketch[columns].T).astype(np.float32)
                if rows is columns:
                    np.fill_diagonal(found, -np.inf)
                best, value = _best(found, columns, min(_FROM_CELL, len(columns)))
                units[rows, start : start + best.shape[1]] = best
                guess[rows, start : start + best.shape[1]] = value

    with ThreadPoolExecutor() as pool:  # cells write disjoint slots, so the order of work changes nothing
        list(pool.map(search, range(int(near.max()) + 1)))
    kept = np.argpartition(guess, -min(_COMPARED, guess.shape[1]), axis=1)[:, -_COMPARED:]
    return np.take_along_axis(units, kept, axis=1), np.take_along_axis(guess, kept, axis=1)


def _portions(visitors: Ints, members: Ints, limit: int, *, is_home: bool) -> list[tuple[Ints, Ints]]:
    """Rows and columns to compare: an overfull cell is cut, residents see their own part, visitors the first."""
    parts = np.array_split(members, -(-len(members) // limit)) if len(members) else []
    if is_home:
        return [(part, part) for part in parts]
    if not parts:
        return []
    return [(rows, parts[0]) for rows in np.array_split(visitors, -(-len(visitors) // limit) or 1) if len(rows)]


def _sketch(lexical: csr_matrix) -> Floats:
    """The lexical rows in a few columns that keep dot products, but for noise (a count sketch).

    Each column is added, with a sign, to one of ``_SKETCH``: Charikar, Chen, Farach-Colton (2002).
    """
    n_columns = N_TRIGRAMS + N_STEMS
    columns = np.arange(n_columns)
    mixed = (columns.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    signs = np.where(mixed & np.uint64(1), 1, -1) * np.sqrt(_TRUST)
    target = ((mixed >> np.uint64(1)) % np.uint64(_SKETCH)).astype(np.intp)
    projection = csr_matrix((signs.astype(np.float32), (columns, target)), (n_columns, _SKETCH))
    return csr_matrix(lexical @ projection).toarray()


def _nearest_cells(dense: Floats, sketch: Floats, params: ClosetParams) -> NDArray[np.int32]:
    """The coarse cells nearest to each unit, (n, n_cells), the home cell first."""
    n_units, n_dims = dense.shape
    n_cells = -(-n_units // params.cell_units)
    draw = np.sort(np.random.default_rng(params.seed).permutation(n_units)[: n_cells * _LEARNT_FROM])
    # init="random": more centres where more units are, so that cells become equally full
    model = MiniBatchKMeans(n_cells, init="random", batch_size=4_096, max_iter=10, random_state=params.seed)
    model.fit(np.hstack([dense[draw], sketch[draw]]))
    centres = np.asarray(model.cluster_centers_, np.float32)
    half, slots = (centres**2).sum(axis=1) / 2, min(params.n_cells, n_cells)
    near = [
        _best(
            dense[i:j] @ centres[:, :n_dims].T + sketch[i:j] @ centres[:, n_dims:].T - half, np.arange(n_cells), slots
        )
        for i, j in _spans(n_units, 4_096)
    ]
    return np.concatenate([cells for cells, _ in near]).astype(np.int32)


def _compared(room: Evidence, units: NDArray[np.int32], guess: Floats, n_neighbours: int) -> Neighbours:
    """Exact likeness of the best guesses; the nearest of them."""
    shape = (len(units), n_neighbours)
    found, likeness = np.full(shape, -1, np.intp), np.full(shape, -np.inf, np.float32)
    for i, j in _spans(len(units), 4_096):
        there = np.isfinite(guess[i:j])
        exact = np.where(there, np.float32(0), -np.float32(np.inf))
        left, right = np.repeat(np.arange(i, j), there.sum(axis=1)), units[i:j][there].astype(np.intp)
        exact[there] = room.likeness(left, right)
        width = min(n_neighbours, exact.shape[1])
        place, likeness[i:j, :width] = _best(exact, np.arange(exact.shape[1]), width)
        found[i:j, :width] = np.take_along_axis(units[i:j], place, axis=1)
    return Neighbours(found, likeness)


def _spans(n: int, step: int) -> list[tuple[int, int]]:
    return [(start, min(start + step, n)) for start in range(0, n, step)]
