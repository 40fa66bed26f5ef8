"""Says what a group holds without a model: sentences taken from its units, and a label."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from rcll.errors import RcllError
from rcll.stages.closets.title import make_title, telling_sentence
from rcll.stages.similarity import MAX_COMPARED_CHARS, Floats, char_rows, compared_text, word_rows

#: A full stop ends a sentence where no small letter follows, and no "Dr." or initial stands before.
_SENTENCE_END = re.compile(
    r"(?<=[.!?…])(?<![A-Z][a-z]\.)(?<!\b[A-Za-z]\.)[\"'”’)\]]*\s+(?![a-zà-ÿ])|(?<=[。！？])|[\r\n]+"
)
_SPOKEN = re.compile(r"[^\W_]")
#: Characters of a text in which sentences are looked for, as a multiple of the longest sentence.
_SENTENCES_AT_MOST = 20
#: A later sentence of a memory leans on the first ("It was ...") and says less by itself.
_LATER_SENTENCE = 0.8


@dataclass(frozen=True, slots=True)
class SummaryParams:
    """How much a summary says."""

    max_sentences: int = 5
    """One paragraph that is read at a glance."""
    max_chars: int = 700
    """About the length of four ordinary memories."""
    max_sentence_chars: int = 300
    """A longer one (a stack trace, a list) is cut at a word, with an ellipsis."""
    same_similarity: float = 0.6
    """Sentences this alike say the same thing; the latest of them speaks."""
    diversity: float = 0.5
    """How much likeness to what is already said costs, against centrality (maximal marginal relevance,
    Carbonell and Goldstein 1998)."""
    title_terms: int = 4
    title_chars: int = 100
    """A whole sentence where one is short enough; else terms."""


class Extract(NamedTuple):
    """An extractive summary; ``used`` are the indices of the texts that it quotes, ascending."""

    title: str
    summary: str
    used: list[int]


def extractive_summary(texts: Sequence[str], params: SummaryParams) -> Extract:
    """Quote the central, mutually different sentences of a group.

    Args:
        texts: the members' texts in time order, at least one of them not blank.
        params: how much the summary says.

    Raises:
        RcllError: all texts are blank.
    """
    parts = [_sentences(text, params.max_sentence_chars) for text in texts]
    sentences = [sentence for part in parts for sentence in part]
    if not sentences:
        raise RcllError(f"{len(texts)} blank texts; expected at least one with words")
    source = [i for i, part in enumerate(parts) for _ in part]
    is_first = np.array([n == 0 for part in parts for n in range(len(part))])
    chosen = _choose(sentences, is_first, params)
    summary = " ".join(_closed(sentences[i]) for i in chosen)
    heads = [text[:MAX_COMPARED_CHARS] for text in texts]
    title = telling_sentence(sentences, heads, params.title_chars)
    title = title or make_title(heads, params.title_terms) or sentences[chosen[0]]
    return Extract(_shortened(title, params.title_chars), summary, sorted({source[i] for i in chosen}))


def representatives(texts: Sequence[str], budget: int) -> list[int]:
    """Which members to read when not all fit: the most central ones, repeats left out.

    Args:
        texts: the members' texts by rank, the most central first.
        budget: characters that may be read in all; the first member is always taken.

    Returns:
        Indices into ``texts``, ascending.
    """
    if sum(map(len, texts)) <= budget:
        return list(range(len(texts)))
    alike = _likeness(texts)
    same = SummaryParams().same_similarity
    taken: list[int] = []
    left = budget
    for i, text in enumerate(texts):
        if not taken or (len(text) <= left and alike[i, taken].max() < same):
            taken.append(i)
            left -= len(text)
    return taken


def _sentences(text: str, limit: int) -> list[str]:
    parts = (" ".join(part.split()) for part in _SENTENCE_END.split(text[: limit * _SENTENCES_AT_MOST]))
    return [_shortened(part, limit) for part in parts if _SPOKEN.search(part)]


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    return (head.rsplit(" ", 1)[0] if " " in head else head).rstrip(" ,;:") + "…"


def _closed(sentence: str) -> str:
    return sentence if sentence[-1] in ".!?…。！？:;\"'”’)" else sentence + "."


def _likeness(texts: Sequence[str]) -> Floats:
    """Mean of character and word cosine, (n, n)."""
    compared = [compared_text(text) for text in texts]
    cosines = [csr_matrix(rows @ rows.T).toarray() for rows in (char_rows(compared), word_rows(compared))]
    return ((cosines[0] + cosines[1]) / 2).astype(np.float32)


def _choose(sentences: list[str], is_first: np.ndarray, params: SummaryParams) -> list[int]:
    """Indices of the sentences to quote, in their order."""
    alike = _likeness(sentences)
    total = alike.sum(axis=1) * np.where(is_first, 1, _LATER_SENTENCE)
    centrality = total / max(1.0, float(total.max()))
    length = np.array([len(sentence) + 1 for sentence in sentences])
    nearest = np.zeros(len(sentences), np.float32)
    chosen: list[int] = []
    left = params.max_chars + 1
    while len(chosen) < params.max_sentences:
        gain = np.where(
            (nearest < params.same_similarity) & (length <= left), centrality - params.diversity * nearest, -9
        )
        best = int(np.argmax(gain.round(5)))
        if gain[best] == -9:  # noqa: PLR2004 - the mark of the line above
            break
        same = np.flatnonzero((alike[best] >= params.same_similarity) & (length <= left))
        chosen.append(int(same.max(initial=best)))
        left -= int(length[chosen[-1]])
        nearest = np.maximum(nearest, np.maximum(alike[best], alike[chosen[-1]]))
    return sorted(chosen) or [int(np.argmax(centrality))]
