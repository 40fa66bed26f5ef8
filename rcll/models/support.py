"""Does a summary rest on its sources? Cheap checks of numbers, names, negations and shared words.

They see an invented figure, a name from elsewhere and a negation that nobody wrote; they do not see a
wrong sentence made of right words. That remains the reader's part, who has the sources beside the summary.
"""
# ruff: noqa: SIM905 - word lists read best as lines of words

import re
from collections.abc import Iterable, Iterator, Sequence

_TOKEN = re.compile(r"[^\W_](?:[\w.,:+#/-]*[^\W_])?")
#: What may stand between the end of a sentence and the next word, and what ends one (or a list's item).
_OPENERS, _ENDS = " \n\"“„«»'‘([", ".!?:;…。！？-*•–—"
_THOUSANDS = re.compile(r"(?<=\d)[,'\u00a0\u202f](?=\d{3}(?!\d))")
#: Dates and times fall into their parts; versions and decimals stay whole.
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_LEADING_ZEROS = re.compile(r"\A0+(?=\d)")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_TERM = re.compile(r"[^\W\d_]{4,}")
#: Letters of a word, and of a name, that are compared: inflection changes the end.
_STEM, _NAME_STEM = 4, 5

_MONTHS = {
    month: number
    for number, month in enumerate(
        "January February March April May June July August September October November December".split(), start=1
    )
}
_NEGATIONS = frozenset(
    # English, then German, Dutch, French, Spanish, Portuguese, Italian, Russian, Polish
    "no not never none neither nor without cannot nobody nothing avoid avoids avoided forbidden prohibited banned "
    "nicht nichts kein keine keinen keinem keiner nie niemals ohne weder verboten "
    "niet geen nooit zonder ne n pas jamais aucun aucune sans interdit "
    "nunca sin ningún ninguna ninguno jamás prohibido não nem sem nenhum nenhuma non mai senza nessun nessuno "
    "не нет никогда без нельзя никто ничего запрещено nie bez nigdy żaden".split()
)
_NEGATION_WORD = re.compile(r"[^\W\d_]+(?:['’]t\b)?")
_CJK_NEGATION = re.compile(r"[不没沒未无無勿]|ない|ません|않|없")
_GERMAN = re.compile(r"\b(?:der|die|das|und|ist|nicht|wird|mit|für|auf)\b", re.IGNORECASE)
_GERMAN_WORDS = 3


def missing_items(title: str, text: str, used: Sequence[str], notes: Sequence[str]) -> list[str]:
    """Numbers, names and negations of a summary that its sources lack, in order, each once.

    Args:
        title: checked for numbers and identifiers only; titles capitalise as they like.
        text: the summary.
        used: the notes that the summary names.
        notes: all notes that the model was given.

    Returns:
        The items; ``a negation`` and ``the negation of all sources`` stand for a meaning that turned round.
    """
    source = "\n".join(notes)
    numbers, tokens = set(_numbers(source)), {t.casefold() for t in _TOKEN.findall(source)}
    items = [n for n in _numbers(f"{title}\n{text}") if n not in numbers]
    folded = source.casefold()
    items += [n for n in _names(text) if not _occurs(n, tokens, folded) and _month(n) not in numbers]
    if is_negated(text) and not is_negated(source):
        items.append("a negation")
    if not is_negated(f"{title} {text}") and all(map(is_negated, used)):
        items.append("the negation of all sources")
    return list(dict.fromkeys(items))


def draws_on_sources(text: str, notes: Iterable[str]) -> bool:
    """Whether a text shares words with at least two notes, or with the only one.

    Compared are stems, in Chinese, Japanese and Korean pairs of signs; notes without any do not count.
    """
    terms = _terms(text)
    comparable = [found for found in map(_terms, notes) if found]
    return sum(not terms.isdisjoint(found) for found in comparable) >= min(2, len(comparable))


def is_negated(text: str) -> bool:
    """Whether a text denies or forbids anything."""
    words = _NEGATION_WORD.findall(text.casefold())
    return any(w in _NEGATIONS or w.endswith(("n't", "n’t")) for w in words) or bool(_CJK_NEGATION.search(text))


def _numbers(text: str) -> Iterator[str]:
    """Numbers with thousands separators and leading zeros taken away."""
    for match in _NUMBER.finditer(_THOUSANDS.sub("", text)):
        yield _LEADING_ZEROS.sub("", match[0])


def _names(text: str) -> Iterator[str]:
    """Words that look like names: capitals inside a sentence, or an identifier anywhere."""
    capitals_tell = len(_GERMAN.findall(text)) < _GERMAN_WORDS  # German capitalises every noun
    for match in _TOKEN.finditer(text):
        token = match[0]
        letters = [c for c in token if c.isalpha()]
        if not letters:
            continue
        is_identifier = "_" in token or any(c.isupper() for c in letters[1:])
        before = text[max(0, match.start() - 5) : match.start()].rstrip(_OPENERS)
        starts = not before or before[-1] in _ENDS
        if is_identifier or (capitals_tell and token[0].isupper() and not starts and len(token) > 1):
            yield token


def _occurs(name: str, tokens: set[str], source: str) -> bool:
    """The name itself, its stem, or all its parts stand in the source."""
    folded = name.casefold()
    if folded in tokens or (len(folded) > _NAME_STEM and folded[: max(_NAME_STEM, len(folded) - 2)] in source):
        return True
    parts = [p for p in re.split(r"[\W_]+|(?<=\d)(?=[^\W\d_])", folded) if p and not p.isdigit()]
    return len(parts) > 0 and all(p in source for p in parts)


def _month(name: str) -> str | None:
    """The number of an English month, so that 2024-03-05 supports "5 March 2024"."""
    return str(_MONTHS[name]) if name in _MONTHS else None


def _terms(text: str) -> set[str]:
    signs = "".join(c if _CJK.match(c) else " " for c in text)
    pairs = {signs[i : i + 2] for i in range(len(signs) - 1) if " " not in signs[i : i + 2]}
    return pairs | {word[:_STEM] for word in _TERM.findall(text.casefold())}
