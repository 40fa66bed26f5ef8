"""Grouping: tight, bounded, the same whatever the order and the number of threads."""

import json
from collections import defaultdict
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import csr_matrix
from scipy.spatial.distance import squareform
from threadpoolctl import threadpool_limits

from rcll.errors import RcllError
from rcll.frames import GROUPS, HALL_ORDER
from rcll.stages.closets import ClosetParams, closet_hall, group_units, source_hash
from rcll.stages.closets.evidence import Evidence, gather_evidence
from rcll.stages.closets.grouping import Room, _seeds, survey_room
from rcll.stages.closets.neighbours import baseline, find_neighbours
from tests.unit.closet_rooms import MadeUpRoom, room_units, words_as_vectors

PARAMS = ClosetParams()
SETS = Path(__file__).parents[2] / "bench" / "groups"


def frame(texts, halls=None):
    """frames.ROOM_UNITS with ids in the order of the texts."""
    return room_units({f"u{i:05d}": text for i, text in enumerate(texts)}, halls)


def members(groups):
    """Groups as a set of sets of unit ids."""
    return {frozenset(part["unit_id"]) for part in groups.partition_by("group")}


def pairs_of(groups):
    """Pairs of unit ids that share a group."""
    return {pair for group in groups for pair in combinations(sorted(group), 2)}


def strangers(n):
    """Texts that share nothing."""
    return list(MadeUpRoom(0, n).texts.values())


def test_matters_become_groups_and_strangers_stay_out():
    """The tellings of a matter are a group, texts about nothing else are in none; the frame is sorted."""
    room = MadeUpRoom(8, 40)
    groups = group_units(room.units, room.vectors, PARAMS)
    assert groups.schema == GROUPS
    assert members(groups) == {frozenset(f"m{i:03d}-{k}" for k in range(4)) for i in range(8)}
    assert groups.equals(groups.sort("group", "rank"))
    firsts = groups.group_by("group").agg(pl.col("unit_id").min()).sort("group")["unit_id"]
    assert firsts.is_sorted()


@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1))
def test_order_of_rows_changes_nothing(seed):
    """Shuffled units with their embeddings give the same frame."""
    room = MadeUpRoom(6, 20)
    order = np.random.default_rng(seed).permutation(len(room.texts))
    expected = group_units(room.units, room.vectors, PARAMS)
    assert group_units(room.units[order], room.vectors[order], PARAMS).equals(expected)


@pytest.mark.parametrize("exact_units", [4_096, 100])
def test_number_of_threads_changes_nothing(exact_units):
    """One thread and four give the same frame, in ordinary and in large rooms."""
    room = MadeUpRoom(30, 180)
    params = replace(PARAMS, exact_units=exact_units, cell_units=60)
    results: list[pl.DataFrame] = []
    for n_threads in (1, 4):
        with threadpool_limits(limits=n_threads):
            results.append(group_units(room.units, room.vectors, params))
    assert results[0].equals(results[1])


def test_coarse_cells_find_nearly_the_same_groups():
    """A room searched by coarse cells yields the groups of the exact search, but for a few."""
    room = MadeUpRoom(60, 360)
    exact = pairs_of(members(group_units(room.units, room.vectors, PARAMS)))
    coarse = replace(PARAMS, exact_units=200, cell_units=150)
    cells = pairs_of(members(group_units(room.units, room.vectors, coarse)))
    assert len(exact & cells) >= 0.9 * max(len(exact), len(cells))


@pytest.mark.parametrize("n_copies", [3, 40, 41, 130])
def test_copies_fall_together_within_bounds(n_copies):
    """Identical texts are grouped in parts of 3 to 40, wholly but for a rest that is too small."""
    texts = ["Boxes are weighed at gate two."] * n_copies + strangers(60)
    groups = group_units(frame(texts), words_as_vectors(texts), PARAMS)
    sizes = groups.group_by("group").len()["len"]
    assert sizes.min() >= 3
    assert sizes.max() <= 40
    assert len(groups) >= n_copies - 2
    assert set(groups["unit_id"]) <= {f"u{i:05d}" for i in range(n_copies)}


def test_a_room_of_one_text_is_grouped_in_bounds():
    """A room of nothing but copies, also one that is searched by cells, ends in groups within bounds."""
    texts = ["The ferry is late."] * 300
    for params in (PARAMS, replace(PARAMS, exact_units=100, cell_units=40)):
        groups = group_units(frame(texts), words_as_vectors(texts), params)
        assert groups.group_by("group").len()["len"].is_between(3, 40).all()


@pytest.mark.parametrize("broken", [np.nan, np.inf, 0.0])
def test_units_without_vectors_are_compared_by_words(broken):
    """Where vectors are missing, near-copies are still found; others stay out."""
    texts = strangers(40) + [f"The winch of berth {n} was greased on Monday." for n in (4, 4, 4, 4)]
    vectors = words_as_vectors(texts)
    vectors[::2] = broken
    assert members(group_units(frame(texts), vectors, PARAMS)) == {frozenset(f"u{i:05d}" for i in range(40, 44))}
    assert len(group_units(frame(texts), np.full_like(vectors, broken), PARAMS)) >= 4
    assert len(group_units(frame(texts), np.empty((len(texts), 0), np.float32), PARAMS)) >= 4


def test_blank_texts_and_monsters():
    """Null and blank texts are in no group; five megabytes of one letter do no harm."""
    texts = [*MadeUpRoom(2, 30).texts.values(), None, "", " \n\t", "x" * 5_000_000, "🎉", "?"]
    vectors = words_as_vectors([text or "" for text in texts])
    groups = group_units(frame(texts), vectors, PARAMS)
    assert len(members(groups)) == 2
    assert not set(groups["unit_id"]) & {f"u{i:05d}" for i in range(38, 44)}


def test_small_and_empty_rooms():
    """Fewer units than a closet needs give an empty frame of the right schema."""
    for n in range(3):
        groups = group_units(frame(["The same text."] * n), np.ones((n, 4), np.float32), PARAMS)
        assert groups.is_empty()
        assert groups.schema == GROUPS


def test_embeddings_must_fit():
    """An embedding row too few is refused with both counts."""
    with pytest.raises(RcllError, match="2 embedding rows for 3 units"):
        group_units(frame(["a", "b", "c"]), np.ones((2, 4), np.float32), PARAMS)


def test_halls_can_be_kept_apart():
    """With ``by_hall`` no group has two halls; without, the same text in two halls is one group."""
    texts = ["The gate closes at nine in the evening."] * 8 + strangers(40)
    halls = ["fact", "warning"] * 4 + ["fact"] * 40
    units, vectors = frame(texts, halls), words_as_vectors(texts)
    assert members(group_units(units, vectors, PARAMS)) == {frozenset(f"u{i:05d}" for i in range(8))}
    apart = group_units(units, vectors, replace(PARAMS, by_hall=True))
    assert members(apart) == {frozenset(f"u{i:05d}" for i in range(start, 8, 2)) for start in (0, 1)}


def test_quality_on_a_labelled_set():
    """Pairwise precision and F1 on a labelled set do not fall below what bench/closets reports, less a margin."""
    import wordllama

    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    rooms = defaultdict(list)
    for line in (SETS / "airfield.jsonl").read_text().splitlines():
        unit = json.loads(line)
        rooms[unit["bank"], unit["room"]].append(unit)
    right = found = wanted = 0
    for units in rooms.values():
        texts = [unit["text"] for unit in units]
        groups = members(group_units(frame(texts, [u["hall"] for u in units]), model.embed(texts), PARAMS))
        truth = defaultdict(set)
        for i, unit in enumerate(units):
            truth[unit["group"]].add(f"u{i:05d}")
        true_pairs = pairs_of(group for name, group in truth.items() if name)
        found_pairs = pairs_of(groups)
        right, found, wanted = right + len(true_pairs & found_pairs), found + len(found_pairs), wanted + len(true_pairs)
    assert right / found >= 0.68
    assert 2 * right / (found + wanted) >= 0.65


@pytest.mark.parametrize("shares_hall", [True, False])
def test_halls_weigh_as_much_as_they_tell_in_the_room(shares_hall):
    """Where matters bear one hall, another hall speaks against a pair; where they bear any, it says next to nothing."""
    room = MadeUpRoom(n_matters=12, n_singles=40, seed=5)
    rng = np.random.default_rng(5)
    halls = [
        HALL_ORDER[int(unit[1:4]) % 7] if shares_hall and unit.startswith("m") else HALL_ORDER[int(rng.integers(7))]
        for unit in room.texts
    ]
    surveyed = survey_room(room_units(room.texts, halls), room.vectors, PARAMS)
    against = float(surveyed.evidence.by_hall[0, 1])
    assert against < -0.9 if shares_hall else against > -0.3


def random_evidence(seed, n_units=30):
    """Evidence of random vectors, words, halls and baselines, with a few missing rows."""
    rng = np.random.default_rng(seed)
    dense = rng.standard_normal((n_units, 5)).astype(np.float32)
    dense[rng.random(n_units) < 0.1] = 0
    lexical = csr_matrix((rng.random((n_units, 9)) * (rng.random((n_units, 9)) < 0.4)).astype(np.float32))
    by_hall = rng.standard_normal((3, 3)).astype(np.float32)
    hall = rng.integers(0, 3, n_units)
    return Evidence(dense, lexical, hall, by_hall + by_hall.T, rng.random(n_units).astype(np.float32))


def naive_evidence(room, words, i, j):
    """Evidence of one pair, written out; ``words`` are the lexical rows as an array."""
    halls = float(room.by_hall[room.hall[i], room.hall[j]])
    return (
        float(room.dense[i] @ room.dense[j] + words[i] @ words[j])
        + halls
        - float(room.baseline[i] + room.baseline[j]) / 2
    )


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_evidence_of_pairs_and_groups_is_that_of_a_loop(seed):
    """Pairs, blocks and means over groups agree with sums written out pair by pair."""
    room = random_evidence(seed)
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(len(room))[:8])
    words = room.lexical.toarray()
    naive = np.array([[naive_evidence(room, words, i, j) for j in rows] for i in rows])
    np.testing.assert_allclose(room.block(rows), naive, atol=1e-4)
    left, right = np.repeat(rows, 8), np.tile(rows, 8)
    np.testing.assert_allclose(room.pairs(left, right), naive.ravel(), atol=1e-4)
    labels = rng.integers(-1, 3, len(room))
    labels[:6] = [0, 0, 1, 1, 2, 2]
    units, groups = np.repeat(np.arange(len(room)), 3), np.tile(np.arange(3), len(room))
    expected = [
        np.mean(
            [naive_evidence(room, words, unit, other) for other in np.flatnonzero(labels == group) if other != unit]
        )
        for unit, group in zip(units, groups, strict=True)
    ]
    np.testing.assert_allclose(room.towards_groups(units, groups, labels), expected, atol=1e-3)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_seeds_are_those_of_one_linkage_over_all(seed):
    """Linking each connected part alone gives the clusters of average linkage over the whole room."""
    room = random_evidence(seed)
    params = replace(PARAMS, member_evidence=1.2)
    evidence = room.block(np.arange(len(room)))
    np.fill_diagonal(evidence, -np.inf)
    left, right = np.nonzero(evidence >= 1.2)
    value = evidence[left, right]
    seeds = _seeds(Room(room, left, right, value), left, right, value, params)
    np.fill_diagonal(evidence, evidence.max())
    distance = squareform(evidence.max() - evidence, checks=False)
    labels = fcluster(linkage(distance, "average"), float(evidence.max()) - 1.2, "distance")
    clusters = {frozenset(np.flatnonzero(labels == label).tolist()) for label in labels}
    assert {frozenset(seed.tolist()) for seed in seeds} == {c for c in clusters if len(c) >= 3}


def test_neighbours_are_those_of_a_loop():
    """The nearest units are the largest sums of dense and lexical products, and the baseline is their mean."""
    made_up = MadeUpRoom(8, 60)
    room = gather_evidence(made_up.units, made_up.vectors, PARAMS)
    near = find_neighbours(room, PARAMS)
    likeness = room.dense @ room.dense.T + (room.lexical @ room.lexical.T).toarray()
    np.fill_diagonal(likeness, -np.inf)
    expected = -np.sort(-likeness, axis=1)[:, : PARAMS.n_neighbours]
    np.testing.assert_allclose(near.likeness, expected, atol=6e-3)
    common = expected[:, PARAMS.n_own :].mean(axis=1)
    own = 1 - PARAMS.n_neighbours / len(made_up.texts)
    np.testing.assert_allclose(
        baseline(near, PARAMS), PARAMS.baseline * (own * common + (1 - own) * common.mean()), atol=6e-3
    )


@pytest.mark.parametrize(
    ("halls", "expected"),
    [
        (["fact", "warning", "fact"], "fact"),
        (["fact", "warning"], "warning"),
        (["event", "procedure", "decision"], "decision"),
        (["custom", "custom", "fact"], "custom"),
        (["zeta", "alpha", "fact"], "fact"),
        (["zeta", "alpha"], "alpha"),
    ],
)
def test_closet_hall(halls, expected):
    """The majority's hall; ties in the specification's order, unknown halls after those, by name."""
    assert closet_hall(halls) == expected


def test_closet_hall_needs_members():
    """No members, no hall."""
    with pytest.raises(RcllError, match="without members"):
        closet_hall([])


def test_source_hash():
    """Thirty-two hexadecimal characters, whatever the order, other where an id or a text is other."""
    one = source_hash(["a", "b"], ["1", "2"])
    assert len(one) == 32
    assert one == source_hash(["b", "a"], ["2", "1"])
    assert (
        len({one, source_hash(["a", "b"], ["2", "1"]), source_hash(["a"], ["1"]), source_hash(["a", "c"], ["1", "2"])})
        == 4
    )
