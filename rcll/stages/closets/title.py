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
#: Lines that make a series, at least; and the share of a line's words that all of them have.
_SERIES, _KEPT = 3, 0.6
_MONTH = (
    "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mär|mrt|mai|mei|okt|dez|fév|avr|juin|juil|aoû|déc|"
    r"ene|abr|ago|dic|gen|mag|giu|lug|set|ott)[^\W\d]*"
)
#: A date, an amount, a version, an identifier with a digit.
_FIGURE = re.compile(
    rf"(?:\b{_MONTH}\s)?\b[\w.:/-]*\d(?:[\w.,:/-]*\w)?%?(?:\.?\s{_MONTH}\b)?(?:\s\d{{4}}\b)?", re.IGNORECASE
)
_BLANK = "…"
_BLANKS = re.compile(rf"{_BLANK}(?:[\s,]*{_BLANK})+")


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
    """The short sentence that says most of what the texts share, less its full stop and what sets it apart.

    A whole sentence, since half of one may say the opposite. Where several sentences differ in figures alone, or most
    texts in a word or two, a blank stands for these: a date of one of them is no title of all. Empty where no sentence
    of at most ``limit`` characters holds two words that texts share.
    """
    n_with = Counter(stem for text in texts for stem in {stem for stem, _, _ in _content_words(text)})
    best, most = "", 0.0
    for sentence in sentences:
        said = {stem for stem, _, _ in _content_words(sentence)}
        shared = [n_with[stem] * _weight(stem) for stem in said if n_with[stem] > 1]
        worth = sum(shared) / (_BREVITY + len(said))
        if len(sentence) <= limit and len(shared) > 1 and worth > most:
            best, most = sentence, worth
    usual = {stem for stem, n in n_with.items() if 2 * n > len(texts)}
    return (_series(best, sentences, usual, len(texts)) or _without_figures(best, sentences)).rstrip(".。 ")


def _series(sentence: str, sentences: Sequence[str], usual: set[str], n_texts: int) -> str:
    """What most texts say, with a blank for each figure and unusual word; empty where they are no such series."""
    common = _common_part(sentence, usual)
    n_alike = len({other for other in sentences if _common_part(other, usual) == common})
    said, kept = (len(list(_content_words(_FIGURE.sub(_BLANK, each)))) for each in (sentence, common))
    is_series = n_alike >= max(_SERIES, n_texts / 2) and kept >= _KEPT * said
    return common if is_series else ""


def _common_part(sentence: str, usual: set[str]) -> str:
    plain = _FIGURE.sub(_BLANK, sentence)
    for stem, word, start in reversed(list(_content_words(plain))):
        if stem not in usual:
            plain = f"{plain[:start]}{_BLANK}{plain[start + len(word) :]}"
    return _BLANKS.sub(_BLANK, plain)


def _without_figures(sentence: str, sentences: Sequence[str]) -> str:
    """The sentence with a blank for each figure in which others that read alike differ from it."""
    plain = _FIGURE.sub(_BLANK, sentence)
    figures = _FIGURE.findall(sentence)
    others = [_FIGURE.findall(other) for other in sentences if _FIGURE.sub(_BLANK, other) == plain]
    kept = iter([all(other[i] == figure for other in others) for i, figure in enumerate(figures)])
    return _FIGURE.sub(lambda found: found[0] if next(kept) else _BLANK, sentence)


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
