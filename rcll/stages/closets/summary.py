"""Says what a group holds without a model: sentences taken from its units, and a label."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rcll.errors import RcllError
from rcll.stages.similarity import char_rows, compared_text, word_rows

_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])[\"'”’)\]]*\s+(?=\S)|(?<=[。！？])|\n+")
_WORD = re.compile(r"[^\W_][\w.+#/-]*[^\W_]|[^\W_]")


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
    """Two sentences this alike say the same thing; the earlier choice stands."""
    diversity: float = 0.5
    """How much likeness to what is already said costs, against centrality (maximal marginal relevance)."""
    title_terms: int = 4
    title_chars: int = 80


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
    sentences = [(i, s) for i, text in enumerate(texts) for s in _sentences(text, params.max_sentence_chars)]
    if not sentences:
        raise RcllError(f"{len(texts)} blank texts; expected at least one with words")
    chosen = _choose([s for _, s in sentences], params)
    picked = [sentences[i] for i in sorted(chosen)]
    summary = " ".join(s if s[-1] in ".!?…。！？:;" else s + "." for _, s in picked)
    return Extract(_title(texts, params), summary, sorted({i for i, _ in picked}))


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
    alike = _likeness([compared_text(text) for text in texts])
    taken: list[int] = []
    used = 0
    for i, text in enumerate(texts):
        repeats = bool(taken) and alike[i, taken].max() > SummaryParams.same_similarity
        if not taken or (not repeats and used + len(text) <= budget):
            taken.append(i)
            used += len(text)
    return taken


def _sentences(text: str, limit: int) -> list[str]:
    parts = (" ".join(part.split()) for part in _SENTENCE_END.split(text[: limit * 20]))
    return [_shortened(part, limit) for part in parts if _WORD.search(part)]


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    return (head.rsplit(" ", 1)[0] if " " in head else head).rstrip(" ,;:") + "…"


def _likeness(texts: list[str]) -> np.ndarray:
    chars, words = char_rows(texts), word_rows(texts)
    return ((chars @ chars.T).toarray() + (words @ words.T).toarray()) / 2


def _choose(sentences: list[str], params: SummaryParams) -> list[int]:
    alike = _likeness([compared_text(s) for s in sentences])
    centrality = alike.sum(axis=1) / max(1.0, float(alike.sum(axis=1).max()))
    chosen: list[int] = []
    room = params.max_chars
    nearest = np.zeros(len(sentences))
    while len(chosen) < params.max_sentences:
        gain = centrality - params.diversity * nearest
        open_ = [
            i
            for i, s in enumerate(sentences)
            if i not in chosen and nearest[i] < params.same_similarity and len(s) < room
        ]
        if not open_:
            break
        best = max(open_, key=lambda i: (round(float(gain[i]), 6), -i))
        chosen.append(best)
        room -= len(sentences[best]) + 1
        nearest = np.maximum(nearest, alike[best])
    return chosen or [int(np.argmax(centrality))]


def _title(texts: Sequence[str], params: SummaryParams) -> str:
    """Distinctive terms that several members share, as they are written most often."""
    counts: dict[str, int] = {}
    spelling: dict[str, str] = {}
    for text in texts:
        for word in {w.lower(): w for w in _WORD.findall(text)}.items():
            counts[word[0]] = counts.get(word[0], 0) + 1
            spelling.setdefault(*word)
    ranked = sorted((w for w in counts if len(w) > 3), key=lambda w: (-counts[w], -len(w), w))
    title = ", ".join(spelling[w] for w in ranked[: params.title_terms]) or texts[0].strip()
    return _shortened(title, params.title_chars)
