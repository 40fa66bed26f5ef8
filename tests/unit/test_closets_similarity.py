"""Rows of length one, trigrams and pairs, against plain loops."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rcll.errors import RcllError
from rcll.stages.similarity import centred_rows, compared_text, pair_cosines, trigram_rows, unit_rows

TEXTS = st.lists(st.text("ab ¿é漢🎉\n", max_size=12), min_size=1, max_size=6)


def trigrams(text):
    """Trigrams of the words, each word in blanks."""
    return Counter(word[i : i + 3] for part in text.split() for word in [f" {part} "] for i in range(len(word) - 2))


@settings(max_examples=60)
@given(TEXTS)
def test_trigram_rows_are_those_of_a_loop(texts):
    """Cosines of the rows agree with trigrams counted word by word and weighted by hand."""
    counts = [trigrams(text) for text in texts]
    n_with = Counter(term for row in counts for term in row)
    weight = {term: math.log((len(texts) + 12) / (n + 12)) for term, n in n_with.items()}
    naive = np.zeros((len(texts), len(n_with)))
    for i, row in enumerate(counts):
        for j, term in enumerate(n_with):
            naive[i, j] = (1 + math.log(row[term])) * weight[term] if row[term] else 0
    length = np.linalg.norm(naive, axis=1, keepdims=True)
    naive /= np.where(length > 0, length, 1)
    rows = trigram_rows(texts)
    np.testing.assert_allclose((rows @ rows.T).toarray(), naive @ naive.T, atol=1e-5)


def test_trigram_rows_of_nothing():
    """No texts and blank texts give empty rows, not an error."""
    assert trigram_rows([]).shape[0] == 0
    assert trigram_rows(["", " "]).nnz == 0


def test_unit_rows():
    """Any scale comes to length one; NaN, infinity and zero become zero; the argument is left alone."""
    rows = np.array([[3e37, 4e37], [3e-30, 4e-30], [np.nan, 1], [np.inf, 1], [0, 0]], np.float32)
    before = rows.copy()
    expected = [[0.6, 0.8], [0.6, 0.8], [0, 0], [0, 0], [0, 0]]
    np.testing.assert_allclose(unit_rows(rows), np.array(expected), atol=1e-6)
    np.testing.assert_array_equal(rows, before)
    with pytest.raises(RcllError, match="1 dimensions"):
        unit_rows(np.ones(3, np.float32))


def test_centred_rows_take_the_common_part_away():
    """Two opposite rests remain of two rows; a single row stays; a missing one takes no part."""
    rows = np.array([[1, 1], [1, -1], [0, 0]], np.float32)
    np.testing.assert_allclose(centred_rows(rows), [[0, 1], [0, -1], [0, 0]], atol=1e-6)
    np.testing.assert_allclose(centred_rows(rows[:1]), [[0.5**0.5, 0.5**0.5]], atol=1e-6)


def test_pair_cosines():
    """Dense and sparse rows give the same products, also for no pair at all and for many blocks of pairs."""
    rows = trigram_rows(["the crane", "a crane", "the gate"])
    left, right = np.tile([0, 1, 2], 2_000), np.tile([1, 2, 0], 2_000)
    dense = rows[:, np.unique(rows.indices)].toarray()
    np.testing.assert_allclose(
        pair_cosines(rows, left, rows, right), pair_cosines(dense, left, dense, right), atol=1e-6
    )
    assert len(pair_cosines(rows, left[:0], rows, right[:0])) == 0


def test_compared_text():
    """A null is nothing; a text is cut and in lower case."""
    assert compared_text(None) == ""
    assert compared_text("ÄB" * 5_000) == "äb" * 1_000
