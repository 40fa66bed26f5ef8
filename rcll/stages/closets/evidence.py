"""How strongly two units, or a unit and a group, speak of one matter."""

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack

from rcll.stages.closets.params import ClosetParams
from rcll.stages.similarity import Floats, centred_rows, compared_text, pair_cosines, stem_rows, trigram_rows

Ints = NDArray[np.intp]

#: Pairs whose likeness is sampled to learn the spread of cosines in a room.
_SAMPLED_PAIRS = 50_000
#: The spread of an embedder's cosines, kept in bounds where a room is all repeats (wordllama: .08-.095).
_SPREAD = (0.04, 0.2)
#: Log odds beyond the bar from which on a pair is as good as a copy.
_COPY = 8.0
#: Shares that are tried, and rounds until they settle.
_SHARED, _HALL_ROUNDS = np.linspace(0, 0.75, 16), 6
#: Evidence that no likeness outweighs.
_NEVER = -10_000.0


@dataclass(frozen=True)
class Evidence:
    """A room made comparable; evidence is a sum of dot products, so the mean over a group is one too.

    Attributes:
        dense: (n, d) float32 centred vectors, scaled so that a dot product is log odds; zero where missing.
        lexical: (n, N_TRIGRAMS + N_STEMS) float32 trigram rows and rows of shared stems, scaled alike.
        hall: (n,) code of each unit's hall.
        by_hall: (n_halls, n_halls) float32 log odds of two halls.
        baseline: (n,) float32 what any pair with this unit gets subtracted, times a half.
    """

    dense: Floats
    lexical: csr_matrix
    hall: Ints
    by_hall: Floats
    baseline: Floats

    def __len__(self) -> int:
        return len(self.dense)

    def with_baseline(self, baseline: Floats) -> "Evidence":
        """The same room with each unit's baseline set."""
        return replace(self, baseline=baseline.astype(np.float32))

    def with_halls(self, left: Ints, right: Ints, likeness: Floats, params: ClosetParams) -> "Evidence":
        """The same room with halls weighed as these pairs, of that likeness, show that they tell anything here.

        In some rooms the units of a matter bear one hall, in others a fact, a warning and an event. A pair counts
        by how likely it is of one matter (expectation maximisation from ``shared_hall`` on). Copies do not count:
        they share the hall because they share the words.
        """
        beyond = (likeness - (self.baseline[left] + self.baseline[right]) / 2).astype(np.float64)
        counts = np.bincount(self.hall, minlength=len(self.by_hall))
        is_telling = beyond < params.member_evidence + _COPY
        left, right, beyond = left[is_telling], right[is_telling], beyond[is_telling]
        is_same = self.hall[left] == self.hall[right]
        by_hall, chance = self.by_hall, (counts / max(1, counts.sum()))[self.hall[left]]
        for _ in range(_HALL_ROUNDS if len(left) and not params.by_hall else 0):
            odds = beyond + by_hall[self.hall[left], self.hall[right]] - params.member_evidence - 1
            shared = _shared_hall(1 / (1 + np.exp(-np.clip(odds, -50, 50))), is_same, chance, params)
            by_hall = _hall_evidence(counts, replace(params, shared_hall=shared))
        return replace(self, by_hall=by_hall)

    def pairs(self, left: Ints, right: Ints) -> Floats:
        """Evidence of the pairs (left[i], right[i])."""
        return self.likeness(left, right) + self.context(left, right)

    def likeness(self, left: Ints, right: Ints) -> Floats:
        """The part of the evidence that lies in vectors and words."""
        dense = pair_cosines(self.dense, left, self.dense, right)
        return dense + pair_cosines(self.lexical, left, self.lexical, right)

    def context(self, left: Ints, right: Ints) -> Floats:
        """The part of the evidence that lies in halls and neighbourhoods, not in vectors and words."""
        halls = self.by_hall[self.hall[left], self.hall[right]]
        return (halls - (self.baseline[left] + self.baseline[right]) / 2).astype(np.float32)

    def block(self, rows: Ints) -> Floats:
        """Evidence of all pairs of some units, (n_rows, n_rows)."""
        dense, lexical = self.dense[rows], self.lexical[rows]
        likeness = dense @ dense.T + (lexical @ lexical.T).toarray()
        return (likeness + self.context(rows[:, None], rows[None, :])).astype(np.float32)

    def towards_groups(self, units: Ints, groups: Ints, labels: Ints) -> Floats:
        """Mean evidence of unit units[i] towards the members of group groups[i], itself left out.

        Args:
            units: (n_pairs,) units.
            groups: (n_pairs,) groups that have at least one other member.
            labels: (n,) group of each unit, numbered from 0, or -1.
        """
        is_asked = np.zeros(int(labels.max(initial=-1)) + 2, np.bool_)  # the last stands for -1
        is_asked[groups] = True
        members = np.flatnonzero(is_asked[labels])
        shape = (len(is_asked), len(self))
        belongs = csr_matrix((np.ones(len(members), np.float32), (labels[members], members)), shape)
        halls = np.eye(len(self.by_hall), dtype=np.float32)[self.hall]
        total = pair_cosines(self.dense, units, np.asarray(belongs @ self.dense), groups)
        total += pair_cosines(self.lexical, units, csr_matrix(belongs @ self.lexical), groups)
        total += ((belongs @ halls) @ self.by_hall)[groups, self.hall[units]] - (belongs @ self.baseline)[groups] / 2
        is_own = labels[units] == groups
        itself = self.pairs(units[is_own], units[is_own]) + self.baseline[units[is_own]] / 2
        total[is_own] -= itself
        return total / (np.diff(belongs.indptr)[groups] - is_own) - self.baseline[units] / 2


def gather_evidence(units: pl.DataFrame, embeddings: Floats, params: ClosetParams) -> Evidence:
    """Make a room comparable; row i of units (frames.ROOM_UNITS) belongs to embedding row i."""
    vectors = centred_rows(embeddings)
    has_vectors = bool(vectors.any(axis=1).mean() > 0.5) if len(vectors) else False  # noqa: PLR2004 - most of them
    lexical_weight = params.lexical_weight if has_vectors else params.lexical_weight_alone
    dense_weight = params.dense_weight / _spread(vectors, params.seed)
    texts = [compared_text(text) for text in units["text"]]
    trigrams, stems = trigram_rows(texts), stem_rows(texts)
    lexical = hstack([trigrams * np.sqrt(lexical_weight), stems * np.sqrt(params.stem_weight)], "csr", np.float32)
    names, hall = np.unique(units["hall"].fill_null("").to_numpy().astype(str), return_inverse=True)
    return Evidence(
        dense=(vectors * np.sqrt(dense_weight)).astype(np.float32),
        lexical=csr_matrix(lexical),
        hall=hall.astype(np.intp),
        by_hall=_hall_evidence(np.bincount(hall, minlength=len(names)), params),
        baseline=np.zeros(len(units), np.float32),
    )


def _spread(vectors: Floats, seed: int) -> float:
    """Robust standard deviation of the cosine of two different units that have vectors."""
    present = np.flatnonzero(vectors.any(axis=1))
    if len(present) < 2:  # noqa: PLR2004 - no pair
        return _SPREAD[1]
    if len(present) ** 2 <= _SAMPLED_PAIRS:
        left, right = present[np.stack(np.triu_indices(len(present), 1))]
    else:
        draw = np.random.default_rng(seed).integers(0, len(present), (2, _SAMPLED_PAIRS))
        left, right = present[draw[:, draw[0] != draw[1]]]
    cosine = pair_cosines(vectors, left, vectors, right)
    spread = 1.4826 * float(np.median(np.abs(cosine - np.median(cosine))))  # 1.4826: as of a normal distribution
    return float(np.clip(spread, *_SPREAD))


def _shared_hall(
    weights: NDArray[np.float64], is_same: NDArray[np.bool_], chance: NDArray[np.float64], params: ClosetParams
) -> float:
    """How often a pair of one matter bears the same hall for a reason: the likeliest of a grid.

    Args:
        weights: (n_pairs,) how likely each is of one matter; each pair counts half, as most come in both directions.
        is_same: whether it bears one hall.
        chance: how many units of the room bear the hall of its first unit.
        params: ``shared_hall`` is what is believed before, as if from ``hall_pairs`` pairs.
    """
    same, other = weights[is_same] / 2, float(weights[~is_same].sum()) / 2
    usual = float(chance.mean())
    believed = params.shared_hall + (1 - params.shared_hall) * usual
    likelihood = [
        float(same @ np.log(s + (1 - s) * chance[is_same]))
        + other * np.log(1 - s)
        + params.hall_pairs * (believed * np.log(s + (1 - s) * usual) + (1 - believed) * np.log(1 - s))
        for s in _SHARED
    ]
    return float(_SHARED[int(np.argmax(likelihood))])


def _hall_evidence(counts: Ints, params: ClosetParams) -> Floats:
    """Log odds of two halls: a pair of one matter shares its hall on purpose with probability ``shared_hall``."""
    shared, frequency = params.shared_hall, counts / max(1, int(counts.sum()))
    table = np.full((len(counts), len(counts)), _NEVER if params.by_hall else np.log(1 - shared))
    np.fill_diagonal(table, np.log((shared + (1 - shared) * frequency) / frequency))
    return table.astype(np.float32)
