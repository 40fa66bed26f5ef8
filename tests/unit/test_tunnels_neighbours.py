"""The search for near pairs: against a loop, by cells, whatever the threads, with broken vectors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from rcll.stages.tunnels.neighbours import add_pairs, centred, nearest_pairs, sample_cosines
from rcll.stages.tunnels.params import TunnelParams

ALL_PAIRS = TunnelParams(n_neighbours=3, n_abroad=2)
BY_CELLS = TunnelParams(n_neighbours=3, n_abroad=2, exact_units=0, cell_units=8, n_cells=100)


def room(n, n_banks, seed, d=8):
    """Vectors in loose clusters, banks, and which banks may be linked (most)."""
    rng = np.random.default_rng(seed)
    around = rng.standard_normal((max(1, n // 5), d))
    vectors = around[rng.integers(0, len(around), n)] + 0.7 * rng.standard_normal((n, d))
    allowed = np.triu(rng.random((n_banks, n_banks)) < 0.8, 1)
    return centred(vectors.astype(np.float32), np.arange(n)), rng.integers(0, n_banks, n), allowed | allowed.T


def loop(vectors, bank, allowed, floor, params):
    """Nearest pairs, one by one."""
    cosine = {}
    n = len(vectors)
    for i in range(n):
        others = sorted((-float(vectors[i].astype(float) @ vectors[j].astype(float)), j) for j in range(n) if j != i)
        others = [(-negative, j) for negative, j in others if -negative > max(floor, 0)]
        abroad = [(c, j) for c, j in others if allowed[bank[i], bank[j]]]
        related = [(c, j) for c, j in others if bank[i] == bank[j] or allowed[bank[i], bank[j]]]
        for c, j in related[: params.n_neighbours] + abroad[: params.n_abroad]:
            cosine[min(i, j), max(i, j)] = c
    return cosine


@given(st.integers(0, 40), st.integers(1, 4), st.integers(0, 1_000), st.sampled_from([-1.0, 0.3]))
@settings(max_examples=40)
def test_agrees_with_a_loop(n, n_banks, seed, floor):
    """All pairs, and cells that are all looked into, give what a loop gives, cosines exactly."""
    vectors, bank, allowed = room(n, n_banks, seed)
    expected = loop(vectors, bank, allowed, floor, ALL_PAIRS)
    for params in (ALL_PAIRS, BY_CELLS) if n >= BY_CELLS.cell_units else (ALL_PAIRS,):
        found = nearest_pairs(vectors, bank, allowed, floor, params)
        assert {(i, j): c for i, j, c in zip(*vars(found).values(), strict=True)} == pytest.approx(expected, abs=1e-9)
        assert sorted(zip(found.left, found.right, strict=True)) == list(zip(found.left, found.right, strict=True))


def test_cells_find_what_is_near():
    """A few cells of many find nearly all neighbours, and all of the near ones."""
    vectors, bank, allowed = room(2_000, 5, seed=3, d=32)
    exact = nearest_pairs(vectors, bank, allowed, 0.3, TunnelParams())
    cells = nearest_pairs(vectors, bank, allowed, 0.3, TunnelParams(exact_units=0, cell_units=64, n_cells=6))
    found = set(zip(cells.left, cells.right, strict=True))
    hit = np.array([pair in found for pair in zip(exact.left, exact.right, strict=True)])
    assert hit.mean() > 0.97
    assert hit[exact.cosine > 0.6].mean() > 0.995


def test_threads_change_nothing():
    """One thread and several give the same pairs and cosines, bit by bit, by blocks and by cells."""
    vectors, bank, allowed = room(1_500, 5, seed=1, d=64)
    for params in (TunnelParams(), TunnelParams(exact_units=0, cell_units=64)):
        runs = []
        for threads in (1, 4):
            with threadpool_limits(threads):
                runs.append(nearest_pairs(vectors, bank, allowed, 0.2, params))
        for one, other in zip(vars(runs[0]).values(), vars(runs[1]).values(), strict=True):
            np.testing.assert_array_equal(one, other)


def test_broken_vectors_take_no_part():
    """NaN, infinite, zero and huge vectors neither pair nor disturb the others."""
    rows = np.ones((7, 3), dtype=np.float32)
    rows[:2] = [[1, 0, 0], [1, 0.1, 0]]
    rows[2:5] = [[np.nan, 1, 0], [np.inf, 0, 0], [0, 0, 0]]
    rows[5:] = [[0, 1e38, 0], [0, 0, -3e38]]
    vectors = centred(rows, np.arange(7))
    assert np.isfinite(vectors).all()
    assert vectors.any(axis=1).tolist() == [True, True, False, False, False, True, True]
    found = nearest_pairs(vectors, np.arange(7), ~np.eye(7, dtype=bool), 0.0, TunnelParams())
    assert list(zip(found.left, found.right, strict=True)) == [(0, 1)]


def test_vectors_all_alike_say_nothing():
    """Where every unit has the same vector, nothing is left of it but rounding, and that counts as missing."""
    rows = np.tile(np.random.default_rng(0).standard_normal(384).astype(np.float32), (50, 1))
    assert not centred(rows, np.arange(50)).any()


def test_pairs_may_be_added():
    """A pair that met otherwise joins once, if its banks may meet and its cosine is above the floor."""
    rows = np.array([[1, 0, 0], [1, 0.2, 0], [-1, 0, 0.1], [-1, 0.1, -0.1]], dtype=np.float32)
    vectors, bank = centred(rows, np.arange(4)), np.array([0, 1, 0, 2])
    allowed = np.zeros((3, 3), dtype=bool)
    allowed[0, 1] = allowed[1, 0] = True
    pairs = nearest_pairs(vectors, bank, allowed, 0.0, TunnelParams())
    more = add_pairs(pairs, (np.array([0, 0, 2]), np.array([1, 2, 3])), vectors, bank, allowed, 0.0)
    assert list(zip(more.left, more.right, strict=True)) == [(0, 1)]


@pytest.mark.parametrize("n", [0, 1, 2, 3_000])
def test_usual_cosines(n):
    """Mean and spread are those of random pairs, with a usual spread where there are too few to measure."""
    vectors, _, _ = room(n, 1, seed=2)
    usual = sample_cosines(vectors, seed=0)
    assert usual.mean == pytest.approx(0, abs=0.02)
    assert usual.spread == pytest.approx(0.12 if n < 3 else np.std(vectors @ vectors.T), abs=0.05)
    assert usual.exceeded_by(1.5) <= usual.exceeded_by(0.01)
