"""How alike two memory texts are: dense vectors and weighted terms, both as rows of length one."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer

from rcll.errors import RcllError

Floats = NDArray[np.float32]

#: Characters of a text that are compared. A memory is one to three sentences; a pasted log of megabytes
#: would only bring memory use, and says in its first lines what it is about.
MAX_COMPARED_CHARS = 2_000


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
    usable = np.isfinite(embeddings).all(axis=1)
    rows = np.where(usable[:, None], embeddings, 0).astype(np.float32)
    length = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    return (rows / np.where(length > 0, length, 1)).astype(np.float32)


def centred_rows(embeddings: Floats) -> Floats:
    """Unit rows with the mean of the present ones taken away, then brought to length one again.

    All texts of a room share its topic, and with it a large common part of their vectors; what tells
    matters apart is the rest.
    """
    rows = unit_rows(embeddings)
    present = rows.any(axis=1)
    if present.sum() < 2:  # noqa: PLR2004 - the mean of one is itself
        return rows
    mean = rows[present].mean(axis=0, dtype=np.float64).astype(np.float32)
    return unit_rows(np.where(present[:, None], rows - mean, 0).astype(np.float32))


def char_rows(texts: list[str]) -> csr_matrix:
    """Character 4- and 5-grams inside words, TF-IDF weighted, rows of length one (blank: zero).

    They see through inflection and compounds in any alphabetic language and match identifiers by part.
    """
    return _term_rows(
        TfidfVectorizer(analyzer="char_wb", ngram_range=(4, 5), sublinear_tf=True, dtype=np.float32), texts
    )


def word_rows(texts: list[str]) -> csr_matrix:
    """Words, TF-IDF weighted, rows of length one (blank: zero)."""
    return _term_rows(TfidfVectorizer(sublinear_tf=True, dtype=np.float32), texts)


def _term_rows(vectorizer: TfidfVectorizer, texts: list[str]) -> csr_matrix:
    try:
        return csr_matrix(vectorizer.fit_transform(texts))
    except ValueError:  # scikit-learn's "empty vocabulary": no text has a term
        return csr_matrix((len(texts), 1), dtype=np.float32)
