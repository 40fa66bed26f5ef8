r"""Which literals a pattern cannot do without.

``required`` reads a pattern in the common form (``rcll.taxonomy.dialect``) and returns literals of which every
match contains at least one: ``\brate[ -]limit(?:er|ing)?\b`` needs " rate limit". One Aho-Corasick pass over a text
then names the few rules that can match it. In the literals and in the text to search (``flat``), all but letters,
digits and ``_`` is a space, and a space stands on both sides of every character outside ASCII: so the boundary ``\b``
beside a word is a space too, and " ai " is not found in "email".

The method is the one of the regex crate's literal extractor and of RE2's FilteredRE2: https://swtch.com/~rsc/regexp/regexp4.html
"""

import itertools
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from rcll.taxonomy.language import FUNCTION_WORDS

#: Strings that one part of a pattern may stand for before it is cut into smaller parts.
_MOST_STRINGS = 100
#: Characters of a class that are spelled out.
_MOST_CHARS = 4

#: A usual text has so many characters, drawn from so many letters that are likely at their place.
_USUAL_LENGTH, _LIKELY_LETTERS = 160.0, 12.0
#: What a string costs beside the texts that hold it.
_PRICE = 0.0001
#: A space, in a literal, is as likely as so many letters.
_SPACE_WEIGHT = 0.7
#: A longer literal is rare enough without the boundary at its end, and one for singular and plural.
_LONG = 6
#: Stands for a boundary until the literals are done.
_EDGE = "\x00"
#: Words of every second text.
_COMMON = frozenset(word for words in FUNCTION_WORDS.values() for word in words.split()) | {"s", "ed", "ing"}

Strings = frozenset[str]

#: What is a space in the text to search.
NO_WORD = r"[\x00-\x1f!-/:-@\[-^`{-\x7f]"
_TO_SPACES = {code: " " for code in range(128) if re.fullmatch(NO_WORD, chr(code))}
_WORD = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")

_PART = re.compile(
    r"""
      (?P<cls>\[\^?\]?(?:\\.|[^\]\\])*\])
    | (?P<open>\(\?s?:)
    | (?P<close>\))
    | (?P<bar>\|)
    | (?P<repeat>(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??)
    | (?P<edge>\\[bB])
    | (?P<hex>\\x[0-9a-f]{2})
    | (?P<escape>\\.)
    | (?P<any>\.)
    | (?P<run>[^\\\[\](){}|*+?.]+(?![*+?{]))
    | (?P<char>.)
    """,
    re.VERBOSE | re.DOTALL,
)

#: A space in the common form, and what most alternatives look like: words, perhaps with an optional ending.
_SPACES = r"[ \x02]"
_PLAIN = re.compile(
    r"(?P<start>(?:\\b)?)(?P<words>(?:[0-9a-z_]|\[\ \\x02\])+)"
    r"(?:(?P<end>(?:\\b)?)|(?:[a-z]\?|\[0-9A-Za-z_\][*+])(?:\\b)?)"
)

#: What opens, closes or divides; escapes and classes are passed over.
_STRUCTURE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?s?:|[)|]", re.DOTALL)
#: One group, perhaps, with boundaries round it.
_EDGED = re.compile(r"(?P<before>(?:\\b)*)(?P<group>\(\?:.*\))(?P<after>(?:\\b)*)", re.DOTALL)

_CLASS_PART = re.compile(r"(?P<hex>\\x[0-9a-f]{2})|(?P<escape>\\.)|(?P<char>.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Part:
    """What is known of a part of a pattern.

    Attributes:
        exact: all strings that it can match, None if too many.
        needed: strings of which each match contains one, None if unknown.
    """

    exact: Strings | None
    needed: Strings | None


_EMPTY = _Part(frozenset({""}), None)
_BOUNDARY = _Part(frozenset({_EDGE}), None)
_ANYTHING = _Part(None, None)


@lru_cache(maxsize=65_536)
def required(pattern: str) -> Strings | None:
    """Return literals of which every match contains at least one, None if there are no such."""
    plain = _PLAIN.fullmatch(pattern)
    if plain is not None and len(plain["words"]) >= (_LONG if plain["end"] is None else 2):
        start, words, end = plain["start"] and _EDGE, plain["words"].replace(_SPACES, " "), plain["end"] and _EDGE
        return frozenset({_flat(f"{start}{words}{end or ''}")})
    found = _best([_read(pattern)])
    if found is None:
        return None
    return _without_longer(frozenset(map(_flat, found)))


@lru_cache(maxsize=4096)
def alternatives(pattern: str) -> tuple[str, ...]:
    r"""Return patterns of which the first that matches leftmost is what the whole matches.

    ``\b(?:a|b)\b|c`` becomes ``\ba\b``, ``\bb\b`` and ``c``; what stands inside other groups stays together.
    """
    found: list[str] = []
    for part in _split(pattern):
        edged = _EDGED.fullmatch(part)
        if edged is not None and len(_split(edged["group"], within=True)) == 1:
            found += [edged["before"] + inner + edged["after"] for inner in alternatives(edged["group"][3:-1])]
        else:
            found.append(part)
    return tuple(found)


def _split(pattern: str, *, within: bool = False) -> list[str]:
    """Split a pattern at the bars that stand in no group; ``within`` splits it behind its groups instead."""
    depth, start, parts = 0, 0, []
    for mark in _STRUCTURE.finditer(pattern):
        depth += {"(": 1, ")": -1}.get(mark[0][0], 0)
        if depth == 0 and mark[0] == (")" if within else "|"):
            parts.append(pattern[start : mark.end() - (not within)])
            start = mark.end()
    return [*parts, pattern[start:]] if start < len(pattern) or not within else parts


def spelled_out(pattern: str) -> Strings | None:
    """Return all strings that the pattern can match, None if they are too many to list."""
    exact = _read(pattern).exact
    return None if exact is None else frozenset(string.replace(_EDGE, "") for string in exact)


def flat(text: str) -> str:
    """Return the text as literals are searched in it; ``flat_texts`` of rcll.taxonomy.candidates for many."""
    text = text.translate(_TO_SPACES)
    return text if text.isascii() else re.sub(r"([^\x00-\x7f])", r" \1 ", text)


@lru_cache(maxsize=262_144)
def _flat(literal: str) -> str:
    """Return a literal in the form of ``flat``; a boundary beside a word character is a space."""
    if _EDGE in literal:
        while _EDGE * 2 in literal:
            literal = literal.replace(_EDGE * 2, _EDGE)
        if literal[1:] and literal[0] == _EDGE and literal[1] in _WORD:
            literal = " " + literal[1:]
        if literal[1:] and literal[-1] == _EDGE and literal[-2] in _WORD:
            literal = literal[:-1] + " "
        literal = literal.replace(_EDGE, "")
    literal = flat(literal)
    return literal.rstrip() if len(literal) > _LONG else literal


def _without_longer(strings: Strings) -> Strings:
    """Drop strings that begin with another one: where they stand, it stands."""
    return frozenset(s for s in strings if not any(s[:n] in strings for n in range(1, len(s))))


@lru_cache(maxsize=4096)  # long word lists stand in many patterns
def _read(pattern: str, before: bool = False, after: bool = False) -> _Part:
    r"""Read alternatives, none of them inside a group.

    Boundaries round a group are those of each of its alternatives: ``\b(?:ai|ui)\b`` needs " ai " or " ui ".
    """
    start = [_BOUNDARY] if before else []
    alternatives: list[list[_Part]] = [[*start]]
    tokens = list(_PART.finditer(pattern))
    at = 0
    while at < len(tokens):
        kind, text = tokens[at].lastgroup, tokens[at][0]
        parts = alternatives[-1]
        match kind:
            case "bar":
                alternatives.append([*start])
            case "repeat":
                parts[-1] = _repeated(parts[-1], text)
            case "open":
                close = _closing(tokens, at)
                follows = tokens[close + 1] if close + 1 < len(tokens) else None
                is_last = follows is None or follows.lastgroup == "bar"
                ends = (is_last and after) or (follows is not None and follows[0] == r"\b")
                starts = bool(parts) and parts[-1] is _BOUNDARY
                is_repeated = follows is not None and follows.lastgroup == "repeat"
                inside = pattern[tokens[at].end() : tokens[close].start()]
                parts.append(_read(inside) if is_repeated else _read(inside, starts, ends))
                at = close
            case _:
                parts.append(_atom(str(kind), text))
        at += 1
    if after:
        alternatives = [[*parts, _BOUNDARY] for parts in alternatives]
    return _either([_joined(parts) for parts in alternatives])


def _closing(tokens: list[re.Match[str]], at: int) -> int:
    depth = 0
    for index in range(at, len(tokens)):
        depth += {"open": 1, "close": -1}.get(str(tokens[index].lastgroup), 0)
        if depth == 0:
            return index
    return len(tokens) - 1


def _atom(kind: str, text: str) -> _Part:
    match kind:
        case "cls":
            return _class(text)
        case "edge":
            return _BOUNDARY if text == r"\b" else _EMPTY
        case "any":
            return _ANYTHING
        case _:
            return _Part(frozenset({_character(kind, text)}), None)


def _character(kind: str, text: str) -> str:
    if kind == "hex":
        char = chr(int(text.removeprefix(r"\x"), 16))
        return " " if char == _EDGE else char
    if kind == "escape":
        return "\n" if text == r"\n" else text[1]
    return text


def _class(text: str) -> _Part:
    body = text[1:-1]
    parts = [(str(part.lastgroup), part[0]) for part in _CLASS_PART.finditer(body)]
    is_range = any(part == ("char", "-") for part in parts[1:-1])
    if text.startswith("[^") or is_range or len(parts) > _MOST_CHARS:
        return _ANYTHING
    return _Part(frozenset(_character(kind, char) for kind, char in parts), None)


def _repeated(part: _Part, quantifier: str) -> _Part:
    if quantifier.startswith("?"):
        return _Part(part.exact | {""}, None) if part.exact is not None else _ANYTHING
    if quantifier.startswith(("*", "{0")):
        return _ANYTHING
    return _Part(None, _best([part]))


def _either(parts: list[_Part]) -> _Part:
    if len(parts) == 1:
        return parts[0]
    exact = _union(part.exact for part in parts)
    if exact is not None and len(exact) > _MOST_STRINGS:
        exact = None
    return _Part(exact, _union(_best([part]) for part in parts))


def _joined(parts: list[_Part]) -> _Part:
    """Join neighbours: their strings are multiplied as long as they stay few."""
    whole: Strings | None = frozenset({""})
    run: Strings = frozenset({""})
    found: list[_Part] = []
    for part in parts:
        longer = _product(run, part.exact)
        if longer is None:
            whole = None
            found += [_Part(run, None), part]
            run = frozenset({""}) if part.exact is None or len(part.exact) > _MOST_STRINGS else part.exact
        else:
            run = longer
    found.append(_Part(run, None))
    return _Part(run if whole is not None else None, _best(found))


def _product(left: Strings, right: Strings | None) -> Strings | None:
    if right is None or len(left) * len(right) > _MOST_STRINGS:
        return None
    return frozenset(a + b for a, b in itertools.product(left, right))


def _union(sets: Iterable[Strings | None]) -> Strings | None:
    known = list(sets)
    return None if any(s is None for s in known) else frozenset().union(*(s for s in known if s is not None))


def _best(parts: list[_Part]) -> Strings | None:
    """Return the set of which the fewest texts are expected to hold a string; a long set has its price."""
    sets = [strings for part in parts for strings in (part.exact, part.needed) if strings is not None]
    best = min(sets, key=_price, default=None)
    return best if best is not None and _price(best) < math.inf else None


@lru_cache(maxsize=65_536)
def _price(strings: Strings) -> float:
    return expected_share(strings) + _PRICE * len(strings)


def expected_share(strings: Strings) -> float:
    """Return in how many texts of a usual kind, roughly, one of the strings stands; infinite for any text."""
    return sum(map(_share, strings))


@lru_cache(maxsize=65_536)
def _share(string: str) -> float:
    string = _flat(string)
    words = string.split()
    n_letters = len("".join(words))
    if n_letters < 2:  # noqa: PLR2004 - a letter is nearly everywhere
        return math.inf
    if all(word in _COMMON for word in words):
        return 0.5 ** len(words)
    n_spaces = len(string) - n_letters
    return min(1.0, _USUAL_LENGTH * _LIKELY_LETTERS ** -(n_letters + _SPACE_WEIGHT * n_spaces))
