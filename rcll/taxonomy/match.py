"""First rule that matches, for one text or for millions.

The meaning is ``first_in_python``: one text after another, one rule after another. For many texts the
same is found rule by rule: one Aho-Corasick pass names the texts that hold a literal without which a rule cannot
match (``rcll.taxonomy.candidates``), and each rule, in order, is tried on those of its texts that no earlier rule has
taken. Most rules are tried on few texts, and most texts against one or two rules.
"""

import itertools
import re
from collections.abc import Sequence
from functools import lru_cache
from threading import Lock

import numpy as np
import numpy.typing as npt
import polars as pl

from rcll.taxonomy.candidates import Candidates, LiteralIndex
from rcll.taxonomy.dialect import python, rust
from rcll.taxonomy.model import Dimension, Rule, Taxonomy

Indices = npt.NDArray[np.int32]

#: Up to so many texts of at most ``SHORT`` characters, Python's regex is the quickest; for rules with gaps its time
#: grows with the square of the length.
_FEW, SHORT = 16, 2_000


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


def matches(rule: Rule, lines: pl.Series) -> pl.Series:
    """Tell which of the normalised texts the rule matches."""
    seen = lines if rule.within is None else lines.str.extract(rf"\A{head_pattern(rule.within)}", 0)
    hit = seen.str.contains(rust(rule.pattern)) if rule.times == 1 else _count(rule, seen) >= rule.times
    if rule.unless is None or not hit.any():
        return hit
    return hit & ~lines.str.contains(rust(rule.unless))


def _count(rule: Rule, lines: pl.Series) -> pl.Series:
    return lines.str.count_matches(rust(rule.pattern))


class Program:
    """Rules of several dimensions for one language, ready to be searched."""

    def __init__(self, rules: Sequence[tuple[Rule, ...]]) -> None:
        """Take the rules of each dimension, in order."""
        self.rules = tuple(rules)
        self._index = LiteralIndex([rule for dimension in self.rules for rule in dimension])
        self._offsets = np.cumsum([0, *(len(dimension) for dimension in self.rules[:-1])])

    def first(self, lines: pl.Series) -> list[Indices]:
        """Return for each dimension and normalised text the index of the first rule that matches, or -1."""
        n_chars = lines.str.len_chars().max()
        if len(lines) <= _FEW and isinstance(n_chars, int) and n_chars <= SHORT:
            return self.one_by_one(lines)
        return self.all_at_once(lines)

    def one_by_one(self, lines: pl.Series) -> list[Indices]:
        """Return what ``first`` does, for a few texts."""
        found = [np.full(len(lines), -1, np.int32) for _ in self.rules]
        for row, line in enumerate(lines):
            for dimension, index in self.likely(line):
                if found[dimension][row] < 0 and find_in_python(self.rules[dimension][index], line):
                    found[dimension][row] = index
        return found

    def likely(self, line: str) -> list[tuple[int, int]]:
        """Return which rules can match one normalised text, as (dimension, index), in order."""
        places = self._index.likely(line)
        dimensions = np.searchsorted(self._offsets, places, side="right") - 1
        return list(zip(dimensions.tolist(), (places - self._offsets[dimensions]).tolist(), strict=True))

    def all_at_once(self, lines: pl.Series) -> list[Indices]:
        """Return what ``first`` does, for many texts."""
        candidates = self._index.candidates(lines)
        return [
            _in_order(rules, lines, candidates, int(offset))
            for rules, offset in zip(self.rules, self._offsets, strict=True)
        ]


def _in_order(rules: tuple[Rule, ...], lines: pl.Series, candidates: Candidates, offset: int) -> Indices:
    """Try each rule on its candidates that are still open; rule i is number ``offset`` + i among them."""
    found = np.full(len(lines), -1, np.int32)
    is_open = np.ones(len(lines), np.bool_)
    counts = _Counts(lines)
    for index, rule in enumerate(rules):
        rows = candidates.of(offset + index, is_open, rule.times)
        if len(rows) == 0:
            continue
        if rule.times > 1 and rule.within is None and rule.unless is None:
            rows = counts.at_least(rule, rows)
        else:
            rows = rows[matches(rule, lines[pl.Series(rows)]).to_numpy()]  # indexing is quicker than gather
        found[rows] = index
        is_open[rows] = False
    return found


class _Counts:
    """How often patterns are found in texts, counted once: rules ask for four finds of the same, then three."""

    def __init__(self, lines: pl.Series) -> None:
        self._lines = lines
        self._known: dict[str, npt.NDArray[np.int32]] = {}

    def at_least(self, rule: Rule, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return those of the rows in which the pattern of the rule is found as often as it asks."""
        known = self._known.setdefault(rule.pattern, np.full(len(self._lines), -1, np.int32))
        new = rows[known[rows] < 0]
        if len(new):
            known[new] = _count(rule, self._lines[pl.Series(new)]).to_numpy()
        return rows[known[rows] >= rule.times]


def program_for(taxonomy: Taxonomy, language: str | None, dimensions: tuple[Dimension, ...]) -> Program:
    """Return the searchable rules that texts of a language see; the same one at every call."""
    with _building:  # threads that need the same one wait for it
        return _program(taxonomy, language, dimensions)


@lru_cache(maxsize=64)
def _program(taxonomy: Taxonomy, language: str | None, dimensions: tuple[Dimension, ...]) -> Program:
    return Program([taxonomy.rules_for(language, dimension) for dimension in dimensions])


_building = Lock()
