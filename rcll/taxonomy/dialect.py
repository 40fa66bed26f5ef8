r"""Patterns as people write them, turned into the common form of Rust's and Python's regex.

The common form uses nothing on which the two disagree: classes are spelled out in ASCII, ``\b`` stands
for the ASCII boundary (``rust`` writes it ``(?-u:\b)``: the Unicode one leaves the DFA at the first
non-ASCII byte and is 30 to 60 times slower), groups do not capture, and the named tokens are replaced by
the marker characters of ``rcll.taxonomy.normalise``.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

#: Stands for the space before a word in capitals.
CAPS = "\x02"
#: Before the line feed that begins a numbered or a bulleted item; in place of a URL.
NUMBER, BULLET, URL = "\x03", "\x04", "\x05"

_SPACE = r"[ \x02]"
TOKENS: Mapping[str, str] = {
    "S": r"(?:\n\x02?)",
    "C": r"(?:(?:\n|[:;] ?| - ?)[\"'(\[]?\x02?)",
    "P": r"(?:(?:\n|[:;,] ?| - ?)[\"'(\[]?\x02?)",
    "NUM": r"(?:\x03\n\x02?)",
    "ITEM": r"(?:[\x03\x04]\n\x02?)",
    "CAPS": r"\x02",
    "E": r"(?:[.!?:;)\"'\]]{0,3}[\x03\x04]?\n)",
    "URL": r"\x05",
}

_OUTSIDE = {
    "b": r"\b",
    "B": r"\B",
    "w": "[0-9A-Za-z_]",
    "W": "[^0-9A-Za-z_]",
    "d": "[0-9]",
    "D": "[^0-9]",
    "s": r"[ \n\x02]",
    "S": r"[^ \n\x02]",
    "n": r"\n",
}
_INSIDE = {"w": "0-9A-Za-z_", "d": "0-9", "s": r" \n\x02", "n": r"\n"}
_META = set(r"\.+*?()|[]{}^$")

#: Everything that is not simply copied.
_SPECIAL = re.compile(
    r"""
      (?P<escape>\\.)
    | (?P<cls>\[\^?\]?(?:\\.|[^\]\\])*\])
    | (?P<token><[A-Z_]+>)
    | (?P<group>\((?:\?[^:)]*:?)?)
    | (?P<quantifier>(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??(?:[*+?]|\{[0-9])?)
    | (?P<char>[ ^$\[\]{}A-Z]|[^\x00-\x7f])
    """,
    re.VERBOSE | re.DOTALL,
)
_QUANTIFIER = re.compile(r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??")
_OPEN_ENDED = re.compile(r"\A\(?(?:\?s?:)?\.\)?[*+]|(?<!\\)\.\)?[*+]\??\Z")


class PatternError(ValueError):
    """The pattern cannot be used; the message says why, in words for the author of the rule."""


def translate(source: str, words: Mapping[str, str] | None = None) -> str:
    """Return the pattern in the common form, tokens replaced.

    Args:
        source: the pattern as a person wrote it.
        words: named patterns, already in the common form.

    Raises:
        PatternError: look-around, anchors, upper case, or something else outside the dialect.
    """
    if not source:
        raise PatternError("the pattern is empty")
    if _OPEN_ENDED.search(source):
        raise PatternError("'.*' or '.+' at the start or end of a pattern matches anything; leave it out")
    return _SPECIAL.sub(lambda part: _part(part, words or {}), source)


def translate_words(words: Mapping[str, str]) -> dict[str, str]:
    """Return named patterns in the common form; they may name each other.

    Raises:
        PatternError: one of them is outside the dialect or contains itself.
    """
    done: dict[str, str] = {}

    def add(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise PatternError(f"words.{name} contains itself")
        for other in re.findall(r"<([A-Z_]+)>", words[name]):
            if other in words and other not in done:
                add(other, (*path, name))
        try:
            done[name] = translate(words[name], done)
        except PatternError as error:
            raise PatternError(f"words.{name}: {error}") from None

    for name in words:
        if name not in done:
            add(name, ())
    return done


@lru_cache(maxsize=65_536)
def rust(pattern: str) -> str:
    r"""Return the common form as Polars takes it: ``\b`` becomes the ASCII boundary."""
    return re.sub(r"\\(.)", lambda m: rf"(?-u:\{m[1]})" if m[1] in "bB" else m[0], pattern, flags=re.DOTALL)


@lru_cache(maxsize=65_536)
def python(pattern: str) -> re.Pattern[str]:
    """Return the common form compiled for Python."""
    return re.compile(pattern, re.ASCII)


def either(patterns: list[str]) -> str:
    """Return one pattern that matches where any of them does, earlier ones preferred."""
    return "|".join(f"(?:{pattern})" for pattern in patterns)


def _part(part: re.Match[str], words: Mapping[str, str]) -> str:
    kind, text = part.lastgroup, part[0]
    match kind:
        case "escape":
            return _escape(text[1])
        case "cls":
            return _class(text)
        case "token":
            return _token(text[1:-1], words)
        case "group":
            return _group(text)
        case "quantifier":
            return _quantifier(text)
        case _:
            return _char(text)


def _quantifier(text: str) -> str:
    if not _QUANTIFIER.fullmatch(text):
        raise PatternError(f"'{text}' is more than one quantifier; the two regex engines read it differently")
    return text


def _escape(char: str) -> str:
    if char in _OUTSIDE:
        return _OUTSIDE[char]
    if char == " ":
        return _SPACE
    if char.isalnum():
        raise PatternError(
            rf"'\{char}' is not in the dialect; expected \b \B \w \W \d \D \s \S \n or \ before punctuation"
        )
    return "\\" + char if char in _META else char


def _group(text: str) -> str:
    if text in ("(", "(?:"):
        return "(?:"
    if text == "(?s:":
        return text
    if text.startswith(("(?=", "(?!", "(?<")):
        raise PatternError(f"look-around or a named group ('{text}'); use 'unless', or '(' ... ')'")
    raise PatternError(f"'{text}' is not in the dialect; expected '(', '(?:' or '(?s:'")


def _char(char: str) -> str:
    if char == " ":
        return _SPACE
    if char in "^$":
        raise PatternError(
            f"anchor '{char}'; expected <S> for a start, <E> for an end, or '\\{char}' for the character"
        )
    if char in "{}[]":
        raise PatternError(f"'{char}' without its counterpart; expected '\\{char}' for the character")
    _require_lower(char)
    return char


def _token(name: str, words: Mapping[str, str]) -> str:
    if name in TOKENS:
        return TOKENS[name]
    if name not in words:
        known = ", ".join(sorted({*TOKENS, *words}))
        raise PatternError(f"unknown token <{name}>; expected one of {known}")
    return f"(?:{words[name]})"


def _class(text: str) -> str:
    negated = text.startswith("[^")
    body = text[2 if negated else 1 : -1]
    if re.search(r"&&|--|~~", body) or re.search(r"(?<!\\)\[", body):
        raise PatternError(f"set operations in '{text}'; the two regex engines read them differently")
    if re.search(r"\\?[ws ]-(?=.)", body) and re.search(r" -.|\\[wds]-.", body):
        raise PatternError(f"a range that starts with a space or a class in '{text}'; put '-' last")
    out = re.sub(r"\\(.)|(.)", _class_part, body, flags=re.DOTALL)
    return f"[{'^' if negated else ''}{out}]"


def _class_part(part: re.Match[str]) -> str:
    escaped, char = part[1], part[2]
    if char is not None:
        _require_lower(char)
        return r" \x02" if char == " " else char
    if escaped in _INSIDE:
        return _INSIDE[escaped]
    if escaped.isalnum():
        raise PatternError(rf"'\{escaped}' inside [...] is not in the dialect; expected \w \d \s \n")
    return "\\" + escaped


def _require_lower(char: str) -> None:
    if char.lower() != char:
        raise PatternError(f"upper-case '{char}'; texts are lower-cased before matching, write it in lower case")
