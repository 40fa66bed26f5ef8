"""Rows of length one, trigrams and pairs, against plain loops."""

import math
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rcll.errors import RcllError
from rcll.stages.similarity import centred_rows, compared_text, pair_cosines, stem_rows, trigram_rows, unit_rows

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


def stems(text):
    """First four letters of words of four letters, or with a digit."""
    words = re.findall(r"[^\W_]+", text)
    return {word[:4] for word in words if len(word) >= 4 or any("0" <= c <= "9" for c in word)}


@settings(max_examples=60)
@given(st.lists(st.text("abé漢_ 1.\n", max_size=24), min_size=1, max_size=6))
def test_stem_rows_are_those_of_a_loop(texts):
    """Dot products of the rows add up the rarity of shared stems; a text that holds too many is scaled down."""
    found = [stems(text) for text in texts]
    n_with = Counter(stem for row in found for stem in row)
    rarity = {stem: min(3, math.log(len(texts) / n)) if n > 1 else 0 for stem, n in n_with.items()}
    scale = [math.sqrt(min(1, 40 / max(1, sum(rarity[stem] for stem in row)))) for row in found]
    naive = [
        [sum(rarity[stem] for stem in a & b) * s * t for b, t in zip(found, scale, strict=True)]
        for a, s in zip(found, scale, strict=True)
    ]
    rows = stem_rows(texts)
    np.testing.assert_allclose((rows @ rows.T).toarray(), naive, atol=1e-4)


def test_long_texts_share_no_more_than_their_scale():
    """Two long texts with hundreds of rare words in common are as like as 40 nats, not as thousands."""
    long = " ".join(f"word{chr(97 + i % 26)}{i}x".encode().hex() for i in range(300))
    rows = stem_rows([long, long, *["something else altogether"] * 60])
    assert float((rows[0] @ rows[1].T).toarray()[0, 0]) <= 40 + 1e-3


def test_stem_rows_of_nothing():
    """No texts and blank texts give empty rows, not an error."""
    assert stem_rows([]).shape[0] == 0
    assert stem_rows(["", " _ "]).nnz == 0


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
