"""What two linked texts are to each other, said only where a cheap rule is sure."""

import re
from typing import NamedTuple

from rcll.stages.similarity import compared_text
from rcll.taxonomy.language import FUNCTION_WORDS

_TOKEN = re.compile(r"\d+(?:[.,:/-]\d+)*|[^\W\d_]+(?:'[^\W\d_]+)*|[%€$£°]")
_NEGATIONS_WORDS = (
    "not no never cannot without none nor nicht kein keine keinen nie niemals ohne ne pas jamais sans "
    "sin nunca jamás non mai senza não nem sem niet geen nooit zonder не нет без никогда değil yok"
)
_NEGATIONS = frozenset(_NEGATIONS_WORDS.split())
_COMMON = frozenset(word for words in FUNCTION_WORDS.values() for word in words.split()) - _NEGATIONS
#: A number that counts something of these is a claim; one that names a build, a day or a room is not.
_UNITS_WORDS = (
    "% € $ £ ° percent prozent eur euro euros usd dollar dollars ms s sec second seconds sekunde "
    "sekunden min minute minutes minuten h hour hours stunde stunden day days tag tage tagen week weeks "
    "woche wochen month months monat monate monaten year years jahr jahre jahren times mal g gram grams "
    "gramm kg kilogram kilograms kilogramm t ton tons tonnes tonnen mm cm m km meter meters metres kb mb "
    "gb tb byte bytes v volt volts w watt kw kwh a ampere amperes degrees grad kelvin people personen "
    "users requests messages rows connections nodes replicas retries"
)
_UNITS = frozenset(_UNITS_WORDS.split())
#: Fewer content words may recur in a longer text by chance; and a superset says clearly more.
_MIN_WORDS, _CLEARLY_MORE = 4, 1.5


class Relation(NamedTuple):
    """A relationship and the rule that found it."""

    relationship: str
    rule: str


class _Wording(NamedTuple):
    content: list[str]
    numbers: list[str]
    negations: int
    counted: list[str]  # what follows each number


def relate(one: str, other: str, *, is_series: bool) -> Relation:
    """Tell duplicate, contradicts and extends apart from same_concept.

    Args:
        one: a text.
        other: the text that it is linked with.
        is_series: more units of the room have this wording but for the numbers (a log); a number changed
            then contradicts nothing.
    """
    a, b = _wording(one), _wording(other)
    if a.content == b.content:
        if a.numbers == b.numbers:
            if a.negations % 2 == b.negations % 2:
                return Relation("duplicate", "same words")
            return Relation("contradicts", "negation")
        if a.negations == b.negations and not is_series and _one_amount_differs(a, b):
            return Relation("contradicts", "number")
        return Relation("same_concept", "same words but for numbers")
    small, large = sorted((a, b), key=lambda wording: len(wording.content))
    if _is_superset(large, small):
        return Relation("extends", "superset")
    return Relation("same_concept", "mutual neighbours")


def _wording(text: str) -> _Wording:
    tokens = _TOKEN.findall(compared_text(text).replace("’", "'"))
    negations = [token for token in tokens if token in _NEGATIONS or token.endswith("n't")]
    content = [token for token in tokens if token[0].isalpha() and token not in _COMMON and token not in negations]
    places = [i for i, token in enumerate(tokens) if token[0].isdigit()]
    counted = [tokens[i + 1] if i + 1 < len(tokens) else "" for i in places]
    return _Wording(content, [tokens[i] for i in places], len(negations), counted)


def _one_amount_differs(a: _Wording, b: _Wording) -> bool:
    if len(a.numbers) != len(b.numbers) or a.counted != b.counted:
        return False
    differing = [i for i, pair in enumerate(zip(a.numbers, b.numbers, strict=True)) if pair[0] != pair[1]]
    return len(differing) == 1 and a.counted[differing[0]] in _UNITS


def _is_superset(large: _Wording, small: _Wording) -> bool:
    said, more = set(small.content), set(large.content)
    return (
        len(said) >= _MIN_WORDS
        and said < more
        and len(more) >= _CLEARLY_MORE * len(said)
        and set(small.numbers) <= set(large.numbers)
        and small.negations % 2 == large.negations % 2
    )
