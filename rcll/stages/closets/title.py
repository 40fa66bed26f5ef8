"""A short label for a group: a sentence that says what its members share, or the terms alone."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from rcll.taxonomy.language import FUNCTION_WORDS

_WORD = re.compile(r"\w(?:[\w./@:#+-]*\w)?")
_FUNCTION_WORDS = frozenset(word for words in FUNCTION_WORDS.values() for word in words.split())
#: Words that many memories have and none is about.
_EMPTY = frozenset(
    word
    for line in (
        "about again all already any because both each every first good here how just last less long made make makes",
        "many may more most much needs new next now once one only other own same says set since some still such take",
        "takes team too two three four five six seven eight nine ten under until use used uses using very want wants",
        "well while whose without year years day days week weeks month months hour hours minute minutes also second",
    )
    for word in line.split()
)
#: So many letters tell a word from another; what follows is mostly inflection.
_STEM = 6
_LEAST_LETTERS = 3
#: Words by which every title is taken to be longer; smaller prefers shorter sentences.
_BREVITY = 6


def make_title(texts: Sequence[str], n_terms: int) -> str:
    """Name what most of the texts share: words and two-word phrases, the widest shared first.

    Returns:
        Terms joined by commas, as they are mostly spelled; empty where no two texts share any.
    """
    words = [list(_content_words(text)) for text in texts]
    spelling = Counter((stem, word) for text in words for stem, word, _ in text)
    single = Counter(stem for text in words for stem in {stem for stem, _, _ in text})
    phrase = Counter(pair for text in words for pair in set(_phrases(text)))
    weight: dict[tuple[str, ...], float] = {(stem,): n * _weight(stem) for stem, n in single.items() if n > 1}
    for pair, n in phrase.items():
        if n > 1 and 2 * n >= max(single[stem] for stem in pair):
            weight[pair] = 1.5 * n * max(_weight(stem) for stem in pair)
    chosen: list[tuple[str, ...]] = []
    for term in sorted(weight, key=lambda term: (-weight[term], term)):
        if not any(_overlap(term, other) for other in chosen):
            chosen.append(term)
    chosen = chosen[:n_terms]
    named = [" ".join(_commonest(spelling, stem) for stem in term) for term in chosen]
    return _capitalised(", ".join(named))


def telling_sentence(sentences: Sequence[str], texts: Sequence[str], limit: int) -> str:
    """The short sentence that says most of what the texts share, as it stands but for its full stop.

    A whole sentence, since half of one may say the opposite; empty where none of at most ``limit`` characters holds
    two words that texts share.
    """
    n_with = Counter(stem for text in texts for stem in {stem for stem, _, _ in _content_words(text)})
    best, most = "", 0.0
    for sentence in sentences:
        said = {stem for stem, _, _ in _content_words(sentence)}
        shared = [n_with[stem] * _weight(stem) for stem in said if n_with[stem] > 1]
        worth = sum(shared) / (_BREVITY + len(said))
        if len(sentence) <= limit and len(shared) > 1 and worth > most:
            best, most = sentence, worth
    return best.rstrip(".。 ")


def _overlap(term: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two terms share a word, its plural or another form of it."""
    return any(a.startswith(b) or b.startswith(a) for a in term for b in other)


def _content_words(text: str) -> Iterator[tuple[str, str, int]]:
    """Stem, word and place of every word that says something."""
    for match in _WORD.finditer(text):
        word, small = match.group(), match.group().casefold()
        is_name = any(c.isdigit() or c == "_" for c in word)
        if small in _FUNCTION_WORDS or small in _EMPTY or len(word) < _LEAST_LETTERS or small.isdecimal():
            continue
        yield (small if is_name else small[:_STEM]), word, match.start()


def _phrases(words: list[tuple[str, str, int]]) -> Iterator[tuple[str, str]]:
    """Pairs of words that stand side by side, with a single character between them."""
    for (stem, word, start), (next_stem, _, next_start) in pairwise(words):
        if start + len(word) + 1 == next_start and stem != next_stem:
            yield stem, next_stem


def _weight(stem: str) -> float:
    """Identifiers tell more than words, long words more than short ones."""
    if any(c.isdigit() or c == "_" for c in stem):
        return 1.4
    return 1.0 if len(stem) == _STEM else 0.8


def _commonest(spelling: Counter[tuple[str, str]], stem: str) -> str:
    forms = {word: n for (of, word), n in spelling.items() if of == stem}
    return min(forms, key=lambda word: (-forms[word], word[:1].isupper(), len(word), word))


def _capitalised(title: str) -> str:
    is_plain = title.partition(",")[0].replace(" ", "").isalpha()
    return title[:1].upper() + title[1:] if is_plain else title
