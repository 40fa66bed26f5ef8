"""Words for new rules: what sets the units that no room rule matched apart from the others."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import sparse
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

from rcll.frames import LABELS, TEXTS, require_schema
from rcll.taxonomy.language import FUNCTION_WORDS
from rcll.taxonomy.normalise import normalise_texts

#: One row a word, best first. ``n_units`` units without a rule hold it, ``n_decided`` of those with one do;
#: ``room`` is the room of at least half of these, if there is one, ``examples`` are unit ids.
SUGGESTIONS = pl.Schema(
    {
        "word": pl.String,
        "n_units": pl.Int64,
        "n_decided": pl.Int64,
        "room": pl.String,
        "examples": pl.List(pl.String),
    }
)

_WORD = r"[^\W\d_][\w-]{2,30}"
#: Words looked at for each one proposed; units named for each.
_TRIED, _EXAMPLES = 50, 3


@dataclass(frozen=True, slots=True)
class SuggestParams:
    """How to look for words.

    Attributes:
        n_words: words to propose at most.
        min_units: units without a rule that a word must catch.
        max_texts: texts looked at, evenly spread; more hardly change the order.
    """

    n_words: int = 30
    min_units: int = 3
    max_texts: int = 200_000


def suggest_rules(texts: pl.DataFrame, labels: pl.DataFrame, params: SuggestParams | None = None) -> pl.DataFrame:
    """Propose words and pairs of words for units that no room rule matched.

    Class-based TF-IDF (Grootendorst 2022, BERTopic): all texts of a room are one document, the undecided ones are
    another, and a word weighs what it says of that one. Of words that weigh the same a pair goes before the words
    that it is made of, then the alphabet decides. A word is proposed only for units that no better word has caught
    before.

    Args:
        texts: frames.TEXTS.
        labels: frames.LABELS of the same units in the same order.
        params: how to look.

    Returns:
        SUGGESTIONS, best first.
    """
    params = params or SuggestParams()
    frame = require_schema(texts, TEXTS, "texts").with_columns(
        require_schema(labels, LABELS, "labels")[["room", "room_rule"]]
    )
    frame = frame.filter(pl.col("text").is_not_null()).gather_every(max(1, len(frame) // params.max_texts))
    if frame["room_rule"].null_count() < params.min_units:
        return pl.DataFrame(schema=SUGGESTIONS)
    counts, words = _count_words(frame["text"])
    rooms = frame.select(pl.when(pl.col("room_rule").is_not_null()).then(pl.col("room"))).to_series()
    order = _order(_weigh(counts, rooms), words)[: _TRIED * params.n_words]
    columns = counts.tocsc()
    is_caught = np.zeros(len(frame), np.bool_)
    found: list[dict[str, object]] = []
    for word in order:
        holders = columns.indices[columns.indptr[word] : columns.indptr[word + 1]].astype(np.int64)
        mine = holders[rooms.is_null().to_numpy()[holders]]
        if len(found) < params.n_words and (~is_caught[mine]).sum() >= params.min_units:
            is_caught[mine] = True
            found.append({"word": words[word]} | _describe(frame, rooms, holders, mine))
    return pl.DataFrame(found, schema=SUGGESTIONS)


def _count_words(texts: pl.Series) -> tuple[sparse.csr_matrix, list[str]]:
    """Return in which texts (rows) which words (columns) stand, 0 or 1."""
    stop = sorted(ENGLISH_STOP_WORDS.union(*(words.split() for words in FUNCTION_WORDS.values())))
    vectorizer = CountVectorizer(
        ngram_range=(1, 2),
        min_df=2 if len(texts) > 1 else 1,
        binary=True,
        dtype=np.int64,
        stop_words=stop,
        token_pattern=_WORD,
    )
    lines = normalise_texts(texts).str.replace_all(r"[\x02-\x05]", " ")
    try:
        counts = vectorizer.fit_transform(lines.to_list())
    except ValueError:  # no words at all
        return sparse.csr_matrix((len(texts), 0), dtype=np.int64), []
    return sparse.csr_matrix(counts), vectorizer.get_feature_names_out().tolist()


def _weigh(counts: sparse.csr_matrix, rooms: pl.Series) -> npt.NDArray[np.float64]:
    """Return the class-based TF-IDF of each word for the texts without a room."""
    per_word = np.asarray(counts.sum(axis=0), np.float64).ravel()
    own = np.asarray(counts[rooms.is_null().arg_true().to_numpy()].sum(axis=0), np.float64).ravel()
    words_per_class = per_word.sum() / rooms.n_unique()
    return own / max(1.0, own.sum()) * np.log1p(words_per_class / np.maximum(per_word, 1.0))


def _order(weights: npt.NDArray[np.float64], words: list[str]) -> npt.NDArray[np.intp]:
    """Return the numbers of the words, best first; words that always stand together weigh the same."""
    is_single = np.array([" " not in word for word in words], np.bool_)
    return np.lexsort((np.array(words), is_single, -weights)) if words else np.empty(0, np.intp)


def _describe(
    frame: pl.DataFrame, rooms: pl.Series, holders: npt.NDArray[np.int64], mine: npt.NDArray[np.int64]
) -> dict[str, object]:
    """Return what is known of a word: its holders are text numbers, ``mine`` those without a rule."""
    decided = rooms[pl.Series(holders)].drop_nulls()
    counted = decided.value_counts().sort(["count", rooms.name], descending=[True, False]).rows()
    return {
        "n_units": len(mine),
        "n_decided": len(decided),
        "room": counted[0][0] if counted and 2 * counted[0][1] >= len(decided) else None,
        "examples": frame["unit_id"][pl.Series(mine[:_EXAMPLES])].to_list(),
    }
