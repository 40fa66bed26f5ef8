"""First rule that matches, for one text or for millions.

The meaning is ``first_in_python``: one text after another, one rule after another. For many texts the
same is found rule by rule: one Aho-Corasick pass names the texts that hold a literal without which a rule cannot
match (``rcll.taxonomy.candidates``), and each rule, in order, is tried on those of its texts that no earlier rule has
taken. Most rules are tried on few texts, and most texts against one or two rules.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from threading import Lock

import numpy as np
import numpy.typing as npt
import polars as pl

from rcll.taxonomy.candidates import Candidates, LiteralIndex, Rows
from rcll.taxonomy.dialect import python, rust
from rcll.taxonomy.model import Dimension, Rule, Taxonomy

Indices = npt.NDArray[np.int32]

#: Up to so many texts of at most ``SHORT`` characters, Python's regex is the quickest; for rules with gaps its time
#: grows with the square of the length.
FEW, SHORT = 16, 2_000


def head_pattern(n_chars: int) -> str:
    """Return the expression, the same for Rust and Python, of the head that rules with ``within`` see.

    It takes one character more, so that a boundary at its end is seen as in the whole text.
    """
    return rf"[\x03\x04]?\n(?s:.{{0,{n_chars}}})[0-9a-z_ß-ɏЀ-ԯ]*(?s:.)"


def head_of(line: str, within: int | None) -> str:
    """Return the part of a normalised text that a rule sees."""
    head = None if within is None else re.match(head_pattern(within), line)
    return line if head is None else head[0]


def find_in_python(rule: Rule, line: str) -> re.Match[str] | None:
    """Return where the rule matches a normalised text, None where it does not or is blocked."""
    found = nth_match(python(rule.pattern), head_of(line, rule.within), rule.times)
    is_blocked = found is not None and rule.unless is not None and python(rule.unless).search(line)
    return None if is_blocked else found


def nth_match(pattern: re.Pattern[str], text: str, times: int) -> re.Match[str] | None:
    """Return the first match of a pattern that is found so often, None if it is not."""
    if times == 1:
        return pattern.search(text)
    found = list(itertools.islice(pattern.finditer(text), times))
    return found[0] if len(found) == times else None


def first_in_python(rules: Sequence[Rule], line: str) -> int:
    """Return the index of the first rule that matches a normalised text, -1 if none does."""
    return next((index for index, rule in enumerate(rules) if find_in_python(rule, line)), -1)


def matches(rule: Rule, lines: pl.Series, pattern: str | None = None) -> pl.Series:
    """Tell which of the normalised texts the rule matches.

    Args:
        rule: the rule.
        lines: normalised texts.
        pattern: what to search in place of the rule's pattern, for Rust: as much of it as these texts can match.
    """
    pattern = rust(rule.pattern) if pattern is None else pattern
    if rule.within is not None and r"\B" not in pattern:  # what the head holds, the text holds
        return _where(lines.str.contains(pattern), lines, lambda some: _is_found(rule, some, pattern))
    return _is_found(rule, lines, pattern)


def _is_found(rule: Rule, lines: pl.Series, pattern: str) -> pl.Series:
    seen = lines if rule.within is None else lines.str.extract(rf"\A{head_pattern(rule.within)}", 0)
    hit = seen.str.contains(pattern) if rule.times == 1 else seen.str.count_matches(pattern) >= rule.times
    if rule.unless is None:
        return hit
    unless = rust(rule.unless)
    return _where(hit, lines, lambda some: ~some.str.contains(unless))


def _where(hit: pl.Series, lines: pl.Series, test: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Keep those hits that pass the test, which only they are put to."""
    rows = hit.arg_true()
    return hit if rows.is_empty() else hit.scatter(rows, test(lines[rows]))


class Program:
    """Rules of several dimensions for one language, ready to be searched."""

    def __init__(self, rules: Sequence[tuple[Rule, ...]]) -> None:
        """Take the rules of each dimension, in order."""
        self.rules = tuple(rules)
        self._index = LiteralIndex([rule.pattern for dimension in self.rules for rule in dimension])
        self._offsets = [0, *itertools.accumulate(len(dimension) for dimension in self.rules)][:-1]

    def first(self, lines: pl.Series) -> list[Indices]:
        """Return for each dimension and normalised text the index of the first rule that matches, or -1."""
        n_chars = lines.str.len_chars().max()
        if len(lines) <= FEW and isinstance(n_chars, int) and n_chars <= SHORT:
            return self.one_by_one(lines.to_list())
        return self.all_at_once(lines)

    def one_by_one(self, lines: Sequence[str]) -> list[Indices]:
        """Return what ``first`` does, for a few texts."""
        found = np.array([self.first_of(line) for line in lines], np.int32).reshape(-1, len(self.rules))
        return list(found.T)

    def first_of(self, line: str) -> list[int]:
        """Return for each dimension the index of the first rule that matches one normalised text, or -1."""
        families = self._index.likely(line)
        return [
            next((n for n, parts in self._likely(families, d) if _is_first(self.rules[d][n], line, parts)), -1)
            for d in range(len(self.rules))
        ]

    def likely(self, line: str) -> list[list[Rule]]:
        """Return for each dimension the rules that can match one normalised text, in order.

        Of their patterns only the alternatives are left that can.
        """
        families = self._index.likely(line)
        return [
            [replace(self.rules[d][n], pattern="|".join(parts)) for n, parts in self._likely(families, d)]
            for d in range(len(self.rules))
        ]

    def _likely(self, families: dict[int, list[int]], dimension: int) -> Iterator[tuple[int, list[str]]]:
        """Return indices of rules, in order, with the alternatives that are worth a search."""
        offset = self._offsets[dimension]
        for index in range(len(self.rules[dimension])):
            number = self._index.family_of[offset + index]
            if number in families:
                parts = self._index.families[number].alternatives
                yield index, [parts[place] for place in families[number]]

    def all_at_once(self, lines: pl.Series) -> list[Indices]:
        """Return what ``first`` does, for many texts."""
        candidates = Candidates(self._index, lines)
        return [
            _in_order(rules, lines, candidates, offset) for rules, offset in zip(self.rules, self._offsets, strict=True)
        ]


def _is_first(rule: Rule, line: str, patterns: Sequence[str]) -> bool:
    """Tell whether the rule fires on one text, of which only these alternatives can match it."""
    head = head_of(line, rule.within)
    if rule.times == 1:
        is_found = any(python(pattern).search(head) for pattern in patterns)
    else:
        is_found = _count_in_python(patterns, head, rule.times) == rule.times
    return is_found and not (rule.unless is not None and python(rule.unless).search(line))


def _count_in_python(patterns: Sequence[str], text: str, most: int) -> int:
    """Count finds of a pattern given by its alternatives, up to ``most``; the first alternative wins at each place."""
    at = n_found = 0
    while n_found < most:
        found = [match for pattern in patterns if (match := python(pattern).search(text, at))]
        if not found:
            break
        at = min(found, key=re.Match.start).end()
        n_found += 1
    return n_found


def _in_order(rules: tuple[Rule, ...], lines: pl.Series, candidates: Candidates, offset: int) -> Indices:
    """Try each rule on its candidates that are still open; rule i is number ``offset`` + i among them."""
    found = np.full(len(lines), -1, np.int32)
    is_open = np.ones(len(lines), np.bool_)
    counts = _Counts(lines)
    for index, rule in enumerate(rules):
        rows, pattern = candidates.of(offset + index, is_open, rule.times)
        if len(rows) == 0:
            continue
        if rule.times > 1 and rule.within is None and rule.unless is None:
            rows = counts.at_least(rule, rows, pattern)
        else:
            rows = rows[matches(rule, lines[pl.Series(rows)], pattern).to_numpy()]  # indexing is quicker than gather
        found[rows] = index
        is_open[rows] = False
    return found


class _Counts:
    """How often patterns are found in texts, counted once: rules ask for four finds of the same, then three."""

    def __init__(self, lines: pl.Series) -> None:
        self._lines = lines
        self._known: dict[str, Indices] = {}

    def at_least(self, rule: Rule, rows: Rows, pattern: str) -> Rows:
        """Return those of the rows in which the rule's pattern, ``pattern`` for these rows, is found often enough."""
        known = self._known.setdefault(rule.pattern, np.full(len(self._lines), -1, np.int32))
        new = rows[known[rows] < 0]
        if len(new):
            known[new] = self._lines[pl.Series(new)].str.count_matches(pattern).to_numpy()
        return rows[known[rows] >= rule.times]


def program_for(taxonomy: Taxonomy, language: str | None, dimensions: tuple[Dimension, ...]) -> Program:
    """Return the searchable rules that texts of a language see; the same one at every call."""
    with _building:  # threads that need the same one wait for it
        return _program(taxonomy, language, dimensions)


@lru_cache(maxsize=64)
def _program(taxonomy: Taxonomy, language: str | None, dimensions: tuple[Dimension, ...]) -> Program:
    return Program([taxonomy.rules_for(language, dimension) for dimension in dimensions])


_building = Lock()
