"""Grows groups in a room: seeds that agree pair by pair, members that agree with the mean, nothing else."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform

from rcll.stages.closets.evidence import Evidence, Ints, gather_evidence
from rcll.stages.closets.neighbours import baseline, find_neighbours
from rcll.stages.closets.params import ClosetParams
from rcll.stages.similarity import Floats

#: Rounds in which the members of new groups may still move; they seldom need four.
_ROUNDS = 8
#: Units that are linked pair by pair at a time; a larger heap of repeats falls apart first.
_LINKED_UNITS = 500
#: Groups with which a unit is compared while new groups settle.
_SHORTLIST = 3
#: More than a room has groups; makes one number of a unit and a group.
_MANY = 1 << 31
#: Up to so many units, pairs are compared for many components at once.
_SMALL = 32


@dataclass(frozen=True)
class Room:
    """A room and its promising pairs, each in both directions, sorted; ``value`` is their evidence."""

    evidence: Evidence
    left: Ints
    right: Ints
    value: Floats


def survey_room(units: pl.DataFrame, embeddings: Floats, params: ClosetParams) -> Room:
    """Compare the units of a room (frames.ROOM_UNITS, sorted by unit_id) with their neighbours.

    Keeps every pair whose evidence a member needs: a mean that high takes at least one pair that high.
    """
    evidence = gather_evidence(units, embeddings, params)
    near = find_neighbours(evidence, params)
    evidence = evidence.with_baseline(baseline(near, params))
    right, likeness = near.units[:, : params.n_linked].ravel(), near.likeness[:, : params.n_linked].ravel()
    left = np.repeat(np.arange(len(evidence)), len(right) // max(1, len(evidence)))
    there = right >= 0
    left, right, likeness = left[there], right[there], likeness[there]
    evidence = evidence.with_halls(left, right, likeness, params)
    value = likeness + evidence.context(left, right)
    kept = value >= params.member_evidence
    left, right, value = np.r_[left[kept], right[kept]], np.r_[right[kept], left[kept]], value[kept]
    key, first = np.unique(left * len(evidence) + right, return_index=True)
    return Room(evidence, *np.divmod(key, len(evidence)), np.r_[value, value][first])


def complete_groups(room: Room, labels: Ints, params: ClosetParams, *, may_found: bool = True) -> Ints:
    """Let free units join the groups there are, found new groups among the rest, until nothing changes.

    A result put in again comes back as it is, and a group that is there loses nobody.

    Args:
        room: the room.
        labels: (n,) group of each unit, numbered from 0, or -1.
        params: how tight and how large groups are.
        may_found: whether new groups may come about.

    Returns:
        (n,) labels; new groups bear the next numbers.
    """
    while True:
        grown = _join(room, labels, params)
        if may_found:
            grown = _found(room, grown, params)
        if np.array_equal(grown, labels):
            return labels
        labels = grown


def _join(room: Room, labels: Ints, params: ClosetParams) -> Ints:
    """Let free units join groups that have place, until no group would take another one."""
    scores = _Scores(room.evidence)
    while True:
        size = np.bincount(labels[labels >= 0], minlength=1)
        has_place = (labels >= 0) & (size[labels] < params.max_members)
        open_pairs = (labels[room.left] < 0) & has_place[room.right]
        pairs = _once(room.left[open_pairs], labels[room.right[open_pairs]])
        joined = _assign(scores, *pairs, labels, params)
        grown = np.where(labels >= 0, labels, joined)
        if np.array_equal(grown, labels):
            return labels
        labels = grown


def _found(room: Room, labels: Ints, params: ClosetParams) -> Ints:
    """Make groups of the free units, if enough of them agree."""
    free = labels < 0
    among = free[room.left] & free[room.right]
    left, right, value = room.left[among], room.right[among], room.value[among]
    agree = value >= params.member_evidence
    found = _numbered(_seeds(room, left[agree], right[agree], value[agree], params), len(labels))
    scores = _Scores(room.evidence)
    for _ in range(_ROUNDS):
        members = np.flatnonzero(found >= 0)
        near = found[right] >= 0
        pairs = _shortlist(np.r_[left[near], members], np.r_[found[right[near]], found[members]], found)
        settled = _without_small(_assign(scores, *pairs, found, params), params.min_members)
        if np.array_equal(settled, found):
            break
        found = settled
    _, number = np.unique(found[found >= 0], return_inverse=True)
    grown = labels.copy()
    grown[found >= 0] = number + int(labels.max(initial=-1)) + 1
    return grown


def _assign(scores: "_Scores", units: Ints, groups: Ints, labels: Ints, params: ClosetParams) -> Ints:
    """Give each unit the group that it agrees with best, if it agrees enough and there is place.

    Args:
        scores: what was computed before.
        units: candidates; together with ``groups`` pairs, each once.
        groups: what they may join or stay in.
        labels: (n,) the groups as they are.
        params: how tight and how large groups are.

    Returns:
        (n,) the group that each candidate gets, -1 for the rest.
    """
    assigned = np.full(len(labels), -1, np.intp)
    if not len(units):
        return assigned
    score = scores.of(units, groups, labels)
    fits = score >= params.member_evidence
    units, groups, score = units[fits], groups[fits], score[fits]
    best = np.lexsort((groups, -score, units))
    best = best[np.r_[True, np.diff(units[best]) > 0]] if len(best) else best
    units, groups, score = units[best], groups[best], score[best]
    settled = np.bincount(labels[labels >= 0], minlength=int(labels.max()) + 1)
    settled -= np.bincount(labels[units][labels[units] >= 0], minlength=len(settled))
    order = np.lexsort((units, -score, groups))
    place = np.arange(len(order)) - np.searchsorted(groups[order], groups[order]) + settled[groups[order]]
    admitted = order[place < params.max_members]
    assigned[units[admitted]] = groups[admitted]
    return assigned


class _Scores:
    """Evidence of units towards groups; asked again, only what changed is computed again."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._labels = np.full(len(evidence), -1, np.intp)
        self._keys, self._values = np.empty(0, np.int64), np.empty(0, np.float32)

    def of(self, units: Ints, groups: Ints, labels: Ints) -> Floats:
        """As ``Evidence.towards_groups``."""
        moved = labels != self._labels
        is_other = np.zeros(int(max(labels.max(), self._labels.max())) + 2, np.bool_)  # the last stands for -1
        is_other[labels[moved]] = is_other[self._labels[moved]] = True
        keys = units * _MANY + groups
        place = np.minimum(np.searchsorted(self._keys, keys), max(0, len(self._keys) - 1))
        known = (self._keys[place] == keys) & ~is_other[groups] if len(self._keys) else np.zeros(len(keys), np.bool_)
        values = np.empty(len(keys), np.float32)
        values[known] = self._values[place[known]]
        values[~known] = self._evidence.towards_groups(units[~known], groups[~known], labels)
        order = np.argsort(keys)
        self._labels, self._keys, self._values = labels, keys[order], values[order]
        return values


def _once(units: Ints, groups: Ints) -> tuple[Ints, Ints]:
    units, groups = np.divmod(np.unique(units * _MANY + groups), _MANY)
    return units, groups


def _shortlist(units: Ints, groups: Ints, labels: Ints) -> tuple[Ints, Ints]:
    """Candidate pairs, each once: a unit's own group, and those in which it has most promising neighbours."""
    key, n_near = np.unique(units * _MANY + groups, return_counts=True)
    units, groups = np.divmod(key, _MANY)
    order = np.lexsort((groups, -n_near, labels[units] != groups, units))
    place = np.arange(len(units)) - np.searchsorted(units, units)
    chosen = order[place < _SHORTLIST]
    return units[chosen], groups[chosen]


def _seeds(room: Room, left: Ints, right: Ints, value: Floats, params: ClosetParams) -> list[Ints]:
    """Average linkage inside each connected part of the pairs that agree, cut where the mean falls short.

    No cluster of average linkage spans two parts, since a mean above the bar takes a pair above it.
    """
    limit = params.member_evidence
    seeds: list[Ints] = []
    for members, evidence in _compared_parts(room, left, right, value, params):
        top = float(evidence.max())
        tree = linkage(top - evidence, "average")
        seeds += [members[part] for part in _cut(tree, top - limit, params)]
    return seeds


def _compared_parts(
    room: Room, left: Ints, right: Ints, value: Floats, params: ClosetParams
) -> Iterator[tuple[Ints, Floats]]:
    """Connected parts with the evidence of all their pairs in condensed form."""
    parts = [part for part in _connected(left, right, value) if len(part) >= params.min_members]
    small = [part for part in parts if len(part) <= _SMALL]
    corners = [np.triu_indices(len(part), 1) for part in small]
    ones = np.concatenate([part[i] for part, (i, _) in zip(small, corners, strict=True)] or [left[:0]])
    others = np.concatenate([part[j] for part, (_, j) in zip(small, corners, strict=True)] or [left[:0]])
    ends = np.cumsum([len(i) for i, _ in corners])
    yield from zip(small, np.split(room.evidence.pairs(ones, others), ends[:-1]), strict=True) if small else ()
    for part in parts:
        if len(part) > _SMALL:
            evidence = room.evidence.block(part)
            yield part, squareform(evidence, checks=False)


def _connected(left: Ints, right: Ints, value: Floats) -> Iterator[Ints]:
    """Connected parts of the given pairs, each ascending.

    A huge part falls apart where the weaker half of its pairs is left out, again and again; copies, which no
    pair tells apart, are cut anywhere. What is lost by that is free for the next round.
    """
    if not len(left):
        return
    units, place = np.unique(np.r_[left, right], return_inverse=True)
    one, other = place[: len(left)], place[len(left) :]
    graph = csr_matrix((np.ones(len(left), np.bool_), (one, other)), (len(units), len(units)))
    _, part = connected_components(graph, directed=False)
    order = np.argsort(part, kind="stable")
    for inner in np.split(order, np.flatnonzero(np.diff(part[order])) + 1):
        members = units[inner]
        if len(members) <= _LINKED_UNITS:
            yield members
            continue
        inside = part[one] == part[inner[0]]
        strong = inside & (value > np.median(value[inside]))
        if strong.any():
            yield from _connected(left[strong], right[strong], value[strong])
        else:
            yield from np.array_split(members, -(-len(members) // _LINKED_UNITS))


def _cut(tree: NDArray[np.float64], height: float, params: ClosetParams) -> list[list[int]]:
    """The largest branches of a linkage that are low enough and not too big, smallest branches left out."""
    whole: dict[int, list[int]] = {leaf: [leaf] for leaf in range(len(tree) + 1)}
    for node, (one, other, level, n_leaves) in enumerate(tree.tolist(), start=len(tree) + 1):
        if level <= height and n_leaves <= params.max_members and one in whole and other in whole:
            whole[node] = whole.pop(int(one)) + whole.pop(int(other))
    return [branch for branch in whole.values() if len(branch) >= params.min_members]


def _numbered(groups: list[Ints], n_units: int) -> Ints:
    labels = np.full(n_units, -1, np.intp)
    for number, members in enumerate(sorted(groups, key=lambda members: int(members.min()))):
        labels[members] = number
    return labels


def _without_small(labels: Ints, min_members: int) -> Ints:
    """Dissolve groups that are too small."""
    size = np.bincount(labels[labels >= 0], minlength=1)
    return np.where((labels >= 0) & (size[labels] >= min_members), labels, -1)
