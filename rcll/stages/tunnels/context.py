"""How far the surroundings of two units agree: what has the same neighbours is about the same matter.

A pair is judged by the overlap of the two circles of mutual neighbours (k-reciprocal encoding: Zhong, Zheng,
Cao and Li, CVPR 2017) and by the best third unit that is a friend of both. One vague likeness gives neither.
"""

from typing import cast

import numpy as np

from rcll.stages.similarity import Floats
from rcll.stages.tunnels.neighbours import Ints, Pairs

#: What a standard deviation of cosine and one unit of rarity count in the likeness of two units, so that the
#: likeness of two paraphrases is about 1, which is what a unit counts in its own circle.
_OF_DEVIATION, _OF_RARITY = 1 / 12, 1 / 4
_PAIRS_AT_ONCE = 16_384
#: Best friends of a unit among which a common one is looked for.
_FRIENDS = 16


def likeness(deviations: Floats, rarity: Floats) -> Floats:
    """Likeness of pairs from their cosine in standard deviations and from the rarity of what they share."""
    return (_OF_DEVIATION * deviations + _OF_RARITY * rarity).astype(np.float32)


def agreement(pairs: Pairs, alike: Floats, n_units: int, circles: tuple[int, ...]) -> Floats:
    """How far the surroundings of each pair agree, 0 to 1.

    Args:
        pairs: the pairs that were looked at; others count as strangers.
        alike: (n_pairs,) likeness.
        n_units: units in the room.
        circles: how many mutual neighbours make a circle; the overlaps are averaged.
    """
    overlap = np.zeros(len(pairs), dtype=np.float32)
    for size in circles:
        units, weights = _circle(pairs, alike, n_units, size)
        common, _ = _compare(units, weights, pairs)
        overlap += common / (2 - common) / len(circles)
    overlap = overlap.round(5)
    units, weights = _friends(pairs, overlap, n_units)
    _, best = _compare(units, weights, pairs)
    return cast("Floats", ((overlap + best) / 2).round(5))


def _circle(pairs: Pairs, alike: Floats, n_units: int, size: int) -> tuple[Ints, Floats]:
    """Mutual neighbours of each unit and itself, (n, size + 1), weights of a row sum to one."""
    source, target, weight = _both_ways(pairs, alike)
    rank = ranks(source, target, weight)
    mutual = (rank < size) & (np.roll(rank, len(pairs)) < size) & (weight > 0)
    itself = np.arange(n_units)
    source, target = np.concatenate([itself, source[mutual]]), np.concatenate([itself, target[mutual]])
    weight = np.concatenate([np.ones(n_units, np.float32), weight[mutual]])
    units, weights = _listed(source, target, weight, n_units, size + 1)
    return units, weights / weights.sum(axis=1, keepdims=True)


def _friends(pairs: Pairs, overlap: Floats, n_units: int) -> tuple[Ints, Floats]:
    source, target, weight = _both_ways(pairs, overlap)
    good = (weight > 0) & (ranks(source, target, weight) < _FRIENDS)
    return _listed(source[good], target[good], weight[good], n_units, _FRIENDS)


def _both_ways(pairs: Pairs, values: Floats) -> tuple[Ints, Ints, Floats]:
    """Each pair from either side; rolled by the number of pairs, an edge meets its reverse."""
    source, target = np.concatenate([pairs.left, pairs.right]), np.concatenate([pairs.right, pairs.left])
    return source, target, np.concatenate([values, values])


def ranks(source: Ints, target: Ints, weight: Floats) -> Ints:
    """Place of each edge among its source's, the heaviest 0, ties by target."""
    order = np.lexsort((target, -weight, source))
    nth = np.empty(len(source), dtype=np.intp)
    nth[order] = np.arange(len(source)) - np.searchsorted(source[order], source[order])
    return nth


def _listed(source: Ints, target: Ints, weight: Floats, n_units: int, width: int) -> tuple[Ints, Floats]:
    """Targets and weights of each source as the rows of two arrays, -1 and 0 where there are fewer."""
    units, weights = np.full((n_units, width), -1, dtype=np.int32), np.zeros((n_units, width), dtype=np.float32)
    order = np.argsort(source, kind="stable")
    source, target, weight = source[order], target[order], weight[order]
    nth = np.arange(len(source)) - np.searchsorted(source, source)
    units[source, nth], weights[source, nth] = target, weight
    return cast("tuple[Ints, Floats]", (units, weights))


def _compare(units: Ints, weights: Floats, pairs: Pairs) -> tuple[Floats, Floats]:
    """Sum and maximum, over the units listed with both ends of a pair, of the smaller weight."""
    total, best = np.zeros(len(pairs), dtype=np.float32), np.zeros(len(pairs), dtype=np.float32)
    for i in range(0, len(pairs), _PAIRS_AT_ONCE):
        left, right = pairs.left[i : i + _PAIRS_AT_ONCE], pairs.right[i : i + _PAIRS_AT_ONCE]
        same = (units[left][:, :, None] == units[right][:, None, :]) & (units[left] >= 0)[:, :, None]
        pair, one, other = np.nonzero(same)
        smaller = np.minimum(weights[left[pair], one], weights[right[pair], other])
        total[i : i + _PAIRS_AT_ONCE] = np.bincount(pair, smaller, minlength=len(left))
        np.maximum.at(best, pair + i, smaller)
    return total, best
