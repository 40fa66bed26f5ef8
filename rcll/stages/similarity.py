"""How alike two memory texts are: dense vectors and weighted terms, both as rows of length one."""

import re

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix, csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer

from rcll.errors import RcllError

Floats = NDArray[np.float32]

#: Characters of a text that are compared. A memory is one to three sentences; a pasted log of megabytes
#: would only bring memory use, and says in its first lines what it is about.
MAX_COMPARED_CHARS = 2_000

_TRIGRAM_BITS = 18
#: Columns of ``trigram_rows``: a bank of any size has some 30,000 different trigrams, so few share a column.
N_TRIGRAMS = 2**_TRIGRAM_BITS
_FLATNESS = 12
#: Letters of a word that are compared (inflection changes the end), and letters from which on a word without a digit
#: says something.
_STEM, _LEAST_LETTERS = 4, 4
_STEM_BITS = 18
#: Columns of ``stem_rows``.
N_STEMS = 2**_STEM_BITS
#: Most that one shared stem counts, and most that a text's stems count together: a long text shares some with any.
_RARE, _MANY_STEMS = 3.0, 40.0
_NO_WORD = re.compile(r"[\W_]+")
_GOLDEN = 0x9E3779B97F4A7C15
_PAIRS_AT_ONCE = 4_096  # rows of both sides fit the cache


def compared_text(text: str | None) -> str:
    """The part of a text that is compared, in lower case; nothing for a null."""
    return (text or "")[:MAX_COMPARED_CHARS].lower()


def unit_rows(embeddings: Floats) -> Floats:
    """Rows of length one; a row with NaN, infinity or length zero becomes all zero ("missing").

    Args:
        embeddings: (n, d) float32, any scale.

    Raises:
        RcllError: not a two-dimensional array.
    """
    if embeddings.ndim != 2:  # noqa: PLR2004 - rows and columns
        raise RcllError(f"embeddings have {embeddings.ndim} dimensions; expected rows of vectors")
    rows = np.array(embeddings, dtype=np.float32)
    rows[~np.isfinite(rows).all(axis=1)] = 0
    return _to_length_one(rows)


def centred_rows(embeddings: Floats) -> Floats:
    """Unit rows with the mean of the present ones taken away, then brought to length one again.

    All texts of a room share its topic, and with it a large common part of their vectors; what tells
    matters apart is the rest.
    """
    rows = unit_rows(embeddings)
    present = np.asarray(rows.any(axis=1))
    if present.sum() < 2:  # noqa: PLR2004 - the mean of one is itself
        return rows
    rows -= rows.sum(axis=0, dtype=np.float64).astype(np.float32) / np.float32(present.sum())
    rows[~present] = 0
    return _to_length_one(rows)


def _to_length_one(rows: Floats) -> Floats:
    """Scale rows in place; by the largest number first, since the square of a huge one leaves float32."""
    largest = np.abs(rows).max(axis=1, initial=0, keepdims=True)
    rows /= np.where(largest > 0, largest, 1)
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    rows /= np.where(length > 0, length, 1)
    return rows


def char_rows(texts: list[str]) -> csr_matrix:
    """Character 4- and 5-grams inside words, TF-IDF weighted, rows of length one (blank: zero).

    They see through inflection and compounds in any alphabetic language and match identifiers by part.
    """
    return _term_rows(TfidfVectorizer(analyzer="char_wb", ngram_range=(4, 5), sublinear_tf=True), texts)


def word_rows(texts: list[str]) -> csr_matrix:
    """Words, TF-IDF weighted, rows of length one (blank: zero)."""
    return _term_rows(TfidfVectorizer(sublinear_tf=True), texts)


def pair_cosines(
    left: Floats | csr_matrix, rows: NDArray[np.intp], right: Floats | csr_matrix, columns: NDArray[np.intp]
) -> Floats:
    """Dot products of left[rows[i]] and right[columns[i]], dense or sparse alike, a block of pairs at a time."""
    parts = [np.empty(0, np.float32)]
    for start in range(0, len(rows), _PAIRS_AT_ONCE):
        one, other = left[rows[start : start + _PAIRS_AT_ONCE]], right[columns[start : start + _PAIRS_AT_ONCE]]
        if isinstance(one, np.ndarray):
            parts.append(np.einsum("ij,ij->i", one, other))
        else:
            parts.append(np.asarray(one.multiply(other).sum(axis=1)).ravel())
    return np.concatenate(parts).astype(np.float32)


def trigram_rows(texts: list[str]) -> csr_matrix:
    """Character trigrams inside words, weighted by how many texts lack them, rows of length one (blank: zero).

    Beside ``char_rows``, which serves a handful of texts, this one is made for a whole room: the trigrams are
    cut and counted with NumPy (200,000 texts in seconds) and hashed to ``N_TRIGRAMS`` columns. The weight
    ln((n + 12) / (df + 12)) is flatter than the usual one, because in a room of forty texts the words of a
    matter of six are not common, merely its own (bench/closets: +.01 average precision of pairs).

    Args:
        texts: as ``compared_text`` gives them.

    Returns:
        (n_texts, N_TRIGRAMS) float32.
    """
    rows, columns = _trigrams(texts)
    shape = (len(texts), N_TRIGRAMS)
    counts = coo_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape).tocsr()
    n_with = np.bincount(counts.indices, minlength=N_TRIGRAMS)
    weight = np.log((len(texts) + _FLATNESS) / (n_with + _FLATNESS)).astype(np.float32)
    data = (1 + np.log(counts.data)) * weight[counts.indices]
    length = np.sqrt(np.add.reduceat(np.append(data**2, np.float32(0)), counts.indptr[:-1])) if len(texts) else data
    per_row = np.diff(counts.indptr)
    length = np.where((per_row > 0) & (length > 0), length, 1)
    data = data / np.repeat(length, per_row)
    return csr_matrix((data.astype(np.float32), counts.indices, counts.indptr), shape)


def stem_rows(texts: list[str]) -> csr_matrix:
    """Beginnings of words, each weighted by the root of ln(n / df) up to 3: a dot product adds up what two texts share.

    Unlike a cosine the sum does not shrink where the rest of the texts differs: two memories that both say "Skarv"
    and "filter" are about one matter whatever else they tell (bench/closets: +.05 F1 on the labelled sets).

    Args:
        texts: as ``compared_text`` gives them.

    Returns:
        (n_texts, N_STEMS) float32.
    """
    rows, columns = np.divmod(np.unique(_stems(texts)), N_STEMS)
    n_with = np.bincount(columns, minlength=N_STEMS)
    weight = np.clip(np.log(max(1, len(texts)) / np.maximum(n_with, 1)), 0, _RARE)
    weight[n_with < 2] = 0  # noqa: PLR2004 - nobody shares it
    data = weight[columns]
    total = np.bincount(rows, data, minlength=len(texts))
    data = data * np.minimum(1, _MANY_STEMS / np.maximum(total, 1))[rows]
    return csr_matrix((np.sqrt(data).astype(np.float32), (rows, columns)), (len(texts), N_STEMS))


def _stems(texts: list[str]) -> NDArray[np.int64]:
    """Row * N_STEMS + hashed column of the beginning of every word that is long enough or holds a digit."""
    framed = [f" {_NO_WORD.sub(' ', text).strip()} " for text in texts]
    lengths = np.array([len(text) for text in framed], dtype=np.int64)
    points = np.frombuffer("".join([*framed, " " * _STEM]).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    n_points = int(lengths.sum())
    is_blank = points == ord(" ")
    starts = np.flatnonzero(is_blank[:n_points] & ~is_blank[1 : n_points + 1]) + 1
    ends = np.flatnonzero(~is_blank[:n_points] & is_blank[1 : n_points + 1]) + 1
    digits = np.concatenate([[0], np.cumsum((points >= ord("0")) & (points <= ord("9")))])
    told = (ends - starts >= _LEAST_LETTERS) | (digits[ends] > digits[starts])
    starts, ends = starts[told], ends[told]
    rows = np.repeat(np.arange(len(texts), dtype=np.int64), lengths)[starts]
    mixed = np.zeros(len(starts), np.uint64)
    for letter in range(_STEM):
        point = np.where(starts + letter < ends, points[starts + letter], 0).astype(np.uint64)
        mixed = ((mixed ^ point) * np.uint64(_GOLDEN)) ^ (mixed >> np.uint64(31))
    return rows * N_STEMS + (mixed >> np.uint64(64 - _STEM_BITS)).astype(np.int64)


def _trigrams(texts: list[str]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Row and hashed column of every trigram; a word is framed by blanks, no trigram spans two words."""
    framed = [f" {' '.join(text.split())} " for text in texts]
    lengths = np.array([len(text) for text in framed], dtype=np.int64)
    points = np.frombuffer("".join(framed).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    if len(points) < 3:  # noqa: PLR2004 - three characters
        return np.empty(0, np.int32), np.empty(0, np.int32)
    rows = np.repeat(np.arange(len(texts), dtype=np.int32), lengths)
    inside = (points[1:-1] != ord(" ")) & (rows[:-2] == rows[2:])
    first, second, third = (points[i : len(points) - 2 + i][inside].astype(np.uint64) for i in range(3))
    mixed = (first << np.uint64(42)) | (second << np.uint64(21)) | third
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(_GOLDEN)  # Fibonacci hashing, wraps on purpose
    return rows[:-2][inside], (mixed >> np.uint64(64 - _TRIGRAM_BITS)).astype(np.int32)


def _term_rows(vectorizer: TfidfVectorizer, texts: list[str]) -> csr_matrix:
    try:
        return csr_matrix(vectorizer.fit_transform(texts), dtype=np.float32)
    except ValueError:  # scikit-learn's "empty vocabulary": no text has a term
        return csr_matrix((len(texts), 1), dtype=np.float32)
