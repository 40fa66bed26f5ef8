"""What two texts share in words: rare terms, identifiers, numbers with units, weighed by the room itself."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.sparse import csr_matrix

from rcll.stages.similarity import MAX_COMPARED_CHARS, Floats, pair_cosines
from rcll.stages.tunnels.neighbours import Ints
from rcll.taxonomy.language import FUNCTION_WORDS

_COMMON = sorted({word for words in FUNCTION_WORDS.values() for word in words.split()})
#: Words are compared by so many first letters, which takes inflection away in any alphabetic language.
_STEM_CHARS = 5
_MIN_CHARS = 3
#: A term counts as rare from this rarity on, ln(n / n_with) / ln(n): it stands in at most n**.6 texts, which is
#: 17 of 117 and 1,500 of 200,000. Commoner ones say which kind of text it is, not which matter.
_RARE = 0.4
#: A room is judged as a sample of one that has so many texts more, or in a room of four nothing would be rare.
_UNSEEN = 20
#: A character that is a word by itself, and the others that words are made of.
_IDEOGRAM = r"[\p{Han}\p{Hiragana}\p{Katakana}]"
_LETTERS = r"[[\p{L}\p{M}\p{N}]--[\p{Han}\p{Hiragana}\p{Katakana}]]+"
_WORD = rf"{_IDEOGRAM}|{_LETTERS}"
#: lane_rates, api/v3, 10.2.0.1, stop-confirm-seconds.
_IDENTIFIER = rf"{_LETTERS}(?:[_./:-]{_LETTERS})+"
#: 30 seconds, 1,200.50 kg, 16 %.
_QUANTITY = r"\p{N}+(?:[.,]\p{N}+)*\s?(?:%|[€$£°]|\p{L}+)"


@dataclass(frozen=True)
class Terms:
    """The terms of a room's texts.

    Attributes:
        tokens: the rare ones, (row, code, word, rarity); ``word`` is the term as it stands in the text, lower case.
        rare: (n, n_terms) csr float32; the square of a value is the term's rarity.
        every: the same with the common terms too.
        total: (n,) float32 rarity of all terms of a text together.
    """

    tokens: pl.DataFrame
    rare: csr_matrix
    every: csr_matrix
    total: Floats

    def shared(self, left: Ints, right: Ints) -> Floats:
        """Rarity of the shared rare terms together of the pairs (left[i], right[i])."""
        return pair_cosines(self.rare, left, self.rare, right).round(5)

    def share(self, left: Ints, right: Ints) -> Floats:
        """The shared part of what both texts say, by rarity: 1 where the terms are the same."""
        shared = pair_cosines(self.every, left, self.every, right)
        either = self.total[left] + self.total[right] - shared
        return np.where(either > 0, shared / np.where(either > 0, either, 1), 0).round(5).astype(np.float32)

    def together(self, limit: int) -> tuple[Ints, Ints]:
        """Pairs of texts that share a term which stands in at most ``limit`` texts, each once, left < right."""
        columns = self.rare.tocsc()
        few = columns[:, np.diff(columns.indptr) <= limit].tocsr()
        met = (few @ few.T).tocoo()
        once = met.row < met.col
        return met.row[once].astype(np.intp), met.col[once].astype(np.intp)

    def in_common(self, left: Ints, right: Ints, n_shown: int) -> list[list[str]]:
        """Up to so many rare words that both texts of each pair share, the rarest first."""
        pairs = pl.DataFrame({"left": left, "right": right}).cast(pl.UInt32).with_row_index("pair")
        one = pairs.join(self.tokens, left_on="left", right_on="row")
        other = pairs.join(self.tokens, left_on="right", right_on="row").select("pair", "code")
        shared = one.join(other, on=["pair", "code"]).sort("pair", -pl.col("rarity"), "word")
        words = shared.group_by("pair").agg(pl.col("word").unique(maintain_order=True).head(n_shown))
        return pairs.join(words, on="pair", how="left").sort("pair")["word"].fill_null([]).to_list()


def weigh_terms(texts: Sequence[str]) -> Terms:
    """Split the texts of a room and weigh each term by its rarity there."""
    tokens = _tokens(texts)
    n = len(texts) + _UNSEEN
    counts = tokens.group_by("term").agg(n_with=pl.len()).sort("term").with_row_index("code")
    rarity = (((n + 1) / (pl.col("n_with") + 1)).log() / np.log(n)).cast(pl.Float32)
    tokens = tokens.join(counts, on="term", how="left").select("row", "code", "word", rarity=rarity).sort("row", "code")
    shape = (len(texts), max(1, len(counts)))
    total = np.bincount(tokens["row"].to_numpy(), tokens["rarity"].to_numpy(), minlength=len(texts))
    rare = tokens.filter(pl.col("rarity") >= _RARE)
    return Terms(rare, _weights(rare, shape), _weights(tokens, shape), total.astype(np.float32))


def _weights(tokens: pl.DataFrame, shape: tuple[int, int]) -> csr_matrix:
    place = (tokens["row"].to_numpy().astype(np.int32), tokens["code"].to_numpy().astype(np.int32))
    return csr_matrix((tokens["rarity"].sqrt().to_numpy(), place), shape)


def _tokens(texts: Sequence[str]) -> pl.DataFrame:
    """(row, term, word), a term once a text."""
    text = pl.Series("text", texts, dtype=pl.String).str.slice(0, MAX_COMPARED_CHARS)
    frame = pl.DataFrame({"text": text}).with_row_index("row")
    frame = frame.with_columns(pl.col("text").str.normalize("NFC").str.to_lowercase())
    words = _found(frame, _WORD).filter(
        (pl.col("word").str.len_chars() >= _MIN_CHARS) | pl.col("word").str.contains(rf"^(?:\p{{N}}|{_IDEOGRAM})"),
        ~pl.col("word").is_in(_COMMON),
    )
    stems = words.with_columns(term=pl.col("word").str.slice(0, _STEM_CHARS))
    whole = _found(frame, _IDENTIFIER).with_columns(term="=" + pl.col("word"))
    amounts = _found(frame, _QUANTITY).with_columns(term="#" + pl.col("word").str.replace_all(r"[\s,]", ""))
    return pl.concat([stems, whole, amounts]).group_by("row", "term").agg(pl.col("word").min())


def _found(frame: pl.DataFrame, pattern: str) -> pl.DataFrame:
    found = frame.select("row", word=pl.col("text").str.extract_all(pattern))
    return found.explode("word").drop_nulls("word")
