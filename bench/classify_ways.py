"""Other ways to find the first rule that matches, to compare the engine with. Each is fn(lines) -> indices by side."""

import itertools
import re
from collections.abc import Callable

import numpy as np
import polars as pl

from rcll.taxonomy import Rule
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
