"""Other ways to find the first rule that matches, to compare the engine with. Each is fn(lines) -> indices by side."""

# ruff: noqa: SLF001 - the naive twin goes through the same tables as the engine
import itertools
import re
import unicodedata
from collections.abc import Callable

import numpy as np
import polars as pl

from rcll.taxonomy import Rule
from rcll.taxonomy import language as lang
from rcll.taxonomy import normalise as norm
from rcll.taxonomy.dialect import either, rust
from rcll.taxonomy.match import head_of, head_pattern

Sides = tuple[tuple[Rule, ...], ...]
Run = tuple[int, str, str | None, int | None, int]
Way = Callable[[pl.Series], list[np.ndarray]]


def loop(sides: Sides) -> Way:
    """One text after another, one rule after another, in Python."""
    compiled = [
        [(re.compile(r.pattern, re.ASCII), r.unless and re.compile(r.unless, re.ASCII), r) for r in rules]
        for rules in sides
    ]

    def hits(pattern: re.Pattern, text: str, times: int) -> bool:
        if times == 1:
            return pattern.search(text) is not None
        return sum(1 for _ in itertools.islice(pattern.finditer(text), times)) == times

    def first(side: list, line: str) -> int:
        for index, (pattern, unless, rule) in enumerate(side):
            if hits(pattern, head_of(line, rule.within), rule.times) and not (unless and unless.search(line)):
                return index
        return -1

    return lambda lines: [np.array([first(side, line) for line in lines.to_list()], np.int32) for side in compiled]


def chain(sides: Sides) -> Way:
    """The best plain Polars: neighbouring rules of one label as one pattern, tried on what is left over.

    It finds the label, not the rule: the index is that of the first rule of the run.
    """
    runs = [_runs(rules) for rules in sides]

    def search(lines: pl.Series, side: list[Run]) -> np.ndarray:
        found = np.full(len(lines), -1, np.int32)
        rows = np.arange(len(lines))
        for index, pattern, unless, within, times in side:
            left = lines[pl.Series(rows)]
            seen = left if within is None else left.str.extract(rf"\A{head_pattern(within)}", 0)
            hit = seen.str.contains(pattern) if times == 1 else seen.str.count_matches(pattern) >= times
            if unless is not None:
                hit &= ~left.str.contains(unless)
            hit = hit.to_numpy()
            found[rows[hit]] = index
            rows = rows[~hit]
        return found

    return lambda lines: [search(lines, side) for side in runs]


def _runs(rules: tuple[Rule, ...]) -> list[Run]:
    out: list[tuple[int, list[str], tuple]] = []
    for index, rule in enumerate(rules):
        key = (rule.label, rule.unless, rule.within, rule.times)
        is_small = sum(map(len, out[-1][1])) < 10_000 if out else False  # a larger DFA would not fit its cache
        if out and out[-1][2] == key and rule.times == 1 and is_small:
            out[-1][1].append(rule.pattern)
        else:
            out.append((index, [rule.pattern], key))
    return [
        (index, rust(either(patterns)), unless and rust(unless), within, times)
        for index, patterns, (_, unless, within, times) in out
    ]


def hyperscan(sides: Sides) -> Way:
    """Intel's Hyperscan through its Python binding, one scan a text for all rules; from the bench extra only."""
    import hyperscan as hs

    if any(rule.within or rule.times > 1 for rules in sides for rule in rules):
        raise ValueError("Hyperscan counts bytes and no finds: rules with 'within' or 'times' cannot be compared")
    numbered = [(number, rule) for number, rule in enumerate(rule for rules in sides for rule in rules)]
    unless = {rule.unless: len(numbered) + place for place, rule in enumerate(r for _, r in numbered) if rule.unless}
    blocks = [unless.get(rule.unless, -1) for _, rule in numbered]
    expressions = [rule.pattern.encode() for _, rule in numbered] + [text.encode() for text in unless]
    ids = [number for number, _ in numbered] + list(unless.values())
    database = hs.Database()
    database.compile(expressions=expressions, ids=ids, flags=[hs.HS_FLAG_SINGLEMATCH] * len(ids))
    bounds = np.cumsum([0, *(len(rules) for rules in sides)]).tolist()

    def run(lines: pl.Series) -> list[np.ndarray]:
        found = [np.full(len(lines), -1, np.int32) for _ in sides]
        seen: set[int] = set()

        def on_match(number: int, *_: object) -> None:
            seen.add(number)

        for row, line in enumerate(lines.to_list()):
            seen.clear()
            database.scan(line.encode(), match_event_handler=on_match)
            for side, out in enumerate(found):
                ours = [n for n in seen if bounds[side] <= n < bounds[side + 1] and blocks[n] not in seen]
                if ours:
                    out[row] = min(ours) - bounds[side]
        return found

    return run


def normalise_in_python(text: str) -> str:
    """Return the normalised text by the same steps as ``rcll.taxonomy.normalise``, in Python."""
    text = text[: norm.MAX_CHARS]
    if not text.isascii():
        for found, replacement in norm._LETTERS.items():
            text = text.replace(found, replacement)
        text = re.sub(_python(norm._INVISIBLE), "", unicodedata.normalize("NFKC", text).replace("İ", "I"))
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    line = _ABBREVIATION.sub(r"\1 ", "\n" + text.strip(" \n") + "\n")
    if _LIST.search(line):
        line = _ITEM.sub("\\1\x03\n", line)
    line = _CAPITALS.sub("\\1\x02\\2", _OPENING.sub("\n", _BULLET.sub("\x04\n", line)))
    return _BREAK.sub(lambda found: norm._BREAKS[found[0]], line.lower())


def _python(pattern: str) -> str:
    pattern = re.sub(r"\\u\{([0-9a-f]+)\}", lambda found: f"\\u{int(found[1], 16):04x}", pattern)
    return pattern.replace("(?-u:\\b)", "\\b").replace(r"\p{Ll}", "[a-zß-öø-ÿа-яё]")


_MARKUP = [(re.compile(_python(p)), r.replace("${1}", r"\1").replace("${2}", r"\2")) for p, r in norm._MARKUP]
_ABBREVIATION = re.compile(norm._ABBREVIATION, re.ASCII | re.IGNORECASE)
_LIST, _ITEM, _BULLET, _OPENING, _CAPITALS = (
    re.compile(_python(p), re.ASCII) for p in (norm._LIST, norm._ITEM, norm._BULLET, norm._OPENING, norm._CAPITALS)
)
_BREAK = re.compile("|".join(re.escape(literal) for literal in norm._BREAKS))


def language_in_python(line: str) -> str | None:
    """Return the language of a normalised text that is English or Latin; other scripts are not measured."""
    n_wide = len(line.encode()) - len(line)
    plain = n_wide * lang._ASCII_SHARE <= len(line)
    if plain and re.search(lang._ENGLISH, line) and not re.search(lang._FOREIGN, line):
        return "en"
    sample = line[: lang._SAMPLE].replace("\n", " ").replace("\x02", " ")
    if not any(char.isalpha() for char in sample):
        return None
    scores = dict.fromkeys(range(len(lang.FUNCTION_WORDS)), 0)
    for sign, numbers in lang._EVIDENCE.items():
        n_found = sum(sample.startswith(sign, at) for at in range(len(sample))) if sign in sample else 0
        for number in numbers:
            scores[number] += n_found
    return list(lang.FUNCTION_WORDS)[max(scores, key=lambda number: scores[number])]
