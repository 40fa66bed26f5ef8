r"""First rule that matches, for one text or for millions.

Three ways give the same answer; which one is taken depends on how many texts there are.

* ``first_in_python``: one text after another, one rule after another. It is also the meaning of the others.
* ``_any_then_each``: for all texts together, is any rule of a chunk found? Then which.
* ``_by_priority``: in ``\A(?:\z|(?s:.+?)(?:RULE1)|(?s:.+?)(?:RULE2)…)(?s:.)`` the regex engine prefers
  earlier alternatives, so leftmost-first order *is* the order of the rules, and one pass of a DFA finds the best
  alternative wherever it stands. The extracted prefix ends one character behind the match; a second expression,
  anchored at that end, cuts the matched words out of it, and each distinct cut is looked up once.
  Two rounds keep the DFA small: which block of rules, then which rule of the block.

What the last way rests on: the leading ``\z`` alternative stops the regex compiler from factoring ``.+?`` out,
which would turn priority into leftmost; every text stands between line feeds, so a character before and behind each
match is real; classes and boundaries are ASCII. ``_is_trustworthy`` tries it on each set of rules first.
"""

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl

from rcll.taxonomy.dialect import either, python, rust
from rcll.taxonomy.model import Dimension, Rule, Taxonomy
from rcll.taxonomy.normalise import normalise_texts

Indices = npt.NDArray[np.int32]
Rows = npt.NDArray[np.uint32]

#: Up to so many texts of at most ``_SHORT`` characters, Python's regex is the quickest.
_FEW, _SHORT = 8, 2_000
#: From so many texts on, building the DFA pays.
_MANY = 4_000
#: Rules that are tried together before each is tried.
_CHUNK = 24
#: Rules of a block, and the most and fewest blocks of a stretch.
_BLOCK, _MOST_BLOCKS, _FEWEST_BLOCKS = 20, 32, 8
#: Longer cuts are looked up by Polars: Python's regex takes quadratic time for rules with gaps.
_LONG_CUT = 500
#: Distinct cuts that are remembered per expression.
_REMEMBERED = 100_000
#: Examples on which the priority expressions are tried.
_TRIED = 200


def head_pattern(n_chars: int) -> str:
    """Return the expression, for Python too, of the head that rules with ``within`` see.

    It takes one character more, so that a boundary at its end is seen as in the whole text.
    """
    return rf"\n(?s:.{{0,{n_chars}}})[0-9a-z_ß-ɏЀ-ԯ]*(?s:.)"


def first_in_python(rules: Sequence[Rule], line: str) -> int:
    """Return the index of the first rule that matches a normalised text, -1 if none does."""
    return next((index for index, rule in enumerate(rules) if find_in_python(rule, line)), -1)


def find_in_python(rule: Rule, line: str) -> re.Match[str] | None:
    """Return where the rule matches a normalised text, None where it does not or is blocked."""
    seen = line
    if rule.within is not None:
        head = re.match(head_pattern(rule.within), line)
        seen = head[0] if head else line
    found = python(rule.pattern).search(seen)
    blocked = found is not None and rule.unless is not None and python(rule.unless).search(line)
    return None if blocked else found


def matches(rule: Rule, lines: pl.Series) -> pl.Series:
    """Tell which normalised texts the rule matches."""
    column = pl.col("text")
    hit = see(column, rule.within).str.contains(rust(rule.pattern))
    if rule.unless is not None:
        hit &= ~column.str.contains(rust(rule.unless))
    return lines.to_frame("text").select(hit).to_series()


def see(lines: pl.Expr, within: int | None) -> pl.Expr:
    """Return the part of normalised texts that a rule sees."""
    return lines if within is None else lines.str.extract(rf"\A{head_pattern(within)}", 0)


@lru_cache(maxsize=256)
def program_for(taxonomy: Taxonomy, language: str | None, dimension: Dimension) -> "Program":
    """Return the searchable rules that texts of a language see; the same one at every call."""
    return Program(taxonomy.rules_for(language, dimension))


@dataclass(frozen=True)
class Program:
    """Rules of one dimension for one language, in order, ready to be searched."""

    rules: tuple[Rule, ...]

    def first(self, lines: pl.Series) -> Indices:
        """Return for each normalised text the index of the first rule that matches, -1 where none does."""
        if len(lines) <= _FEW and int(lines.str.len_chars().max() or 0) <= _SHORT:  # pyright: ignore[reportArgumentType]
            return np.array([first_in_python(self.rules, line) for line in lines], np.int32)
        if len(lines) < _MANY:
            return self.any_then_each(lines)
        return self.by_priority(lines)

    def any_then_each(self, lines: pl.Series) -> Indices:
        """Return what ``first`` does, whatever the number of texts."""
        return self._search(lines, fast=False)

    def by_priority(self, lines: pl.Series) -> Indices:
        """Return what ``first`` does, whatever the number of texts."""
        return self._search(lines, fast=True)

    def _search(self, lines: pl.Series, *, fast: bool) -> Indices:
        found = np.full(len(lines), -1, np.int32)
        for stretch in self._stretches:
            rows = np.flatnonzero(found < 0).astype(np.uint32)
            if len(rows) == 0:
                break
            left = lines if len(rows) == len(lines) else lines.gather(rows)
            found[rows] = stretch.by_priority(left) if fast else stretch.any_then_each(left)
        return found

    @cached_property
    def _stretches(self) -> list["Stretch"]:
        """Neighbouring rules that see the same part of the text."""
        starts = [
            index
            for index, rule in enumerate(self.rules)
            if index == 0 or rule.within != self.rules[index - 1].within
        ]
        return [
            Stretch(self.rules, start, stop) for start, stop in zip(starts, [*starts[1:], len(self.rules)], strict=False)
        ]


@dataclass(frozen=True)
class Stretch:
    """Rules ``start`` to ``stop`` (exclusive), which all see the same part of the text."""

    rules: tuple[Rule, ...]
    start: int
    stop: int

    def any_then_each(self, lines: pl.Series, after: Indices | None = None) -> Indices:
        """Return the index of the first rule that matches each text; only rules behind ``after`` count."""
        found = np.full(len(lines), -1, np.int32)
        seen = self._see(lines)
        for start, stop, any_of in self._chunks:
            rows = np.flatnonzero(found < 0) if after is None else np.flatnonzero((found < 0) & (after < stop - 1))
            rows = rows[seen.gather(rows).str.contains(any_of).to_numpy()]
            for index in range(start, stop):
                if len(rows) == 0:
                    break
                may = rows if after is None else rows[after[rows] < index]
                hit = may[self._hits(self.rules[index], lines, seen, may)]
                found[hit] = index
                rows = rows[found[rows] < 0]
        return found

    def by_priority(self, lines: pl.Series) -> Indices:
        """Return the same as ``any_then_each``, in two passes whatever the number of rules."""
        return self._by_priority(lines) if self._is_trustworthy else self.any_then_each(lines)

    def _by_priority(self, lines: pl.Series) -> Indices:
        seen = self._see(lines)
        found = np.full(len(lines), -1, np.int32)
        for group in self._groups:
            rows = np.flatnonzero(found < 0).astype(np.uint32)
            found[rows] = group.search(seen.gather(rows))
        return self._respect_unless(lines, found)

    def _respect_unless(self, lines: pl.Series, found: Indices) -> Indices:
        """Send the texts whose rule is blocked on to the rules behind it."""
        for index in np.unique(found):
            unless = self.rules[index].unless if index >= 0 else None
            if unless is None:
                continue
            rows = np.flatnonzero(found == index)
            rows = rows[lines.gather(rows).str.contains(rust(unless)).to_numpy()]
            if len(rows):
                found[rows] = -2 - index
        rows = np.flatnonzero(found < -1)
        if len(rows):
            found[rows] = self.any_then_each(lines.gather(rows), after=-2 - found[rows])
        return found

    def _see(self, lines: pl.Series) -> pl.Series:
        within = self.rules[self.start].within
        return lines if within is None else lines.to_frame("text").select(see(pl.col("text"), within)).to_series()

    @staticmethod
    def _hits(rule: Rule, lines: pl.Series, seen: pl.Series, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        hit = seen.gather(rows).str.contains(rust(rule.pattern)).to_numpy()
        if rule.unless is not None and hit.any():
            hit = hit & ~lines.gather(rows).str.contains(rust(rule.unless)).to_numpy()
        return hit

    @cached_property
    def _chunks(self) -> list[tuple[int, int, str]]:
        bounds = range(self.start, self.stop, _CHUNK)
        return [chunk for first in bounds for chunk in self._chunk(first, min(first + _CHUNK, self.stop))]

    def _chunk(self, first: int, last: int) -> list[tuple[int, int, str]]:
        """One expression for a chunk, or for its halves where the regex engine finds it too large."""
        any_of = either([rust(rule.pattern) for rule in self.rules[first:last]])
        try:
            pl.Series([""]).str.contains(any_of)
        except pl.exceptions.ComputeError:
            if last - first == 1:
                raise
            middle = (first + last) // 2
            return self._chunk(first, middle) + self._chunk(middle, last)
        return [(first, last, any_of)]

    @cached_property
    def _groups(self) -> list["Group"]:
        """Groups of blocks; a later group sees only what no earlier one matched."""
        patterns = [rule.pattern for rule in self.rules[self.start : self.stop]]
        n_blocks = min(len(patterns), max(_FEWEST_BLOCKS, min(_MOST_BLOCKS, len(patterns) // _BLOCK)))
        n_literals = sum(len(re.sub(r"\\.|\[.*?\]|[^\w]", "", pattern)) for pattern in patterns)
        n_groups = min(n_blocks, max(1, math.ceil(math.sqrt(n_blocks * n_literals / 5000))))
        blocks = [
            Alternatives(tuple(range(self.start + first, self.start + last)), tuple(patterns[first:last]))
            for first, last in _split(len(patterns), n_blocks)
        ]
        return [Group(tuple(blocks[first:last])) for first, last in _split(n_blocks, n_groups)]

    @cached_property
    def _is_trustworthy(self) -> bool:
        """Tell whether the priority expressions give the right answer on the rules' own examples.

        Each example stands behind that of a later rule, so that priority and leftmost differ.
        """
        examples = [rule.hits[0] for rule in self.rules[self.start : self.stop] if rule.hits][:_TRIED]
        pairs = [f"{late}\n{early}" for early, late in itertools.pairwise(examples)]
        pairs += [f"{late}\n{early}" for early, late in zip(examples, reversed(examples), strict=True)]
        lines = normalise_texts(pl.Series(["", *pairs], dtype=pl.String))
        try:
            return np.array_equal(self._by_priority(lines), self.any_then_each(lines))
        except pl.exceptions.ComputeError:  # too large for the regex engine
            return False


@dataclass(frozen=True)
class Alternatives:
    """Patterns in order of priority, each with the index that it stands for."""

    indices: tuple[int, ...]
    patterns: tuple[str, ...]
    _known: dict[str, int] = field(default_factory=dict[str, int], compare=False, repr=False)

    def search(self, lines: pl.Series) -> Indices:
        """Return for each text the index of the best pattern in it, -1 where there is none."""
        prefixes = lines.str.extract(self._prefix, 0)
        cuts = prefixes.str.extract(self._cut, 0)
        return self._look_up(cuts)

    @cached_property
    def union(self) -> str:
        """One pattern for all."""
        return either(list(self.patterns))

    @cached_property
    def _prefix(self) -> str:
        return r"\A(?:\z|" + "|".join(f"(?s:.+?)(?:{rust(p)})" for p in self.patterns) + ")(?s:.)"

    @cached_property
    def _cut(self) -> str:
        return rf"(?s:.)(?:{rust(self.union)})(?s:.)\z"

    @cached_property
    def _at_end(self) -> list[re.Pattern[str]]:
        return [python(rf"(?s:.)(?:{pattern})(?s:.)\Z") for pattern in self.patterns]

    def _look_up(self, cuts: pl.Series) -> Indices:
        distinct = cuts.unique().drop_nulls()
        if distinct.is_empty():
            return np.full(len(cuts), -1, np.int32)
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        indices = [self._known.get(cut, -1) for cut in distinct]
        indices = [
            self._known.setdefault(cut, self._index_of(cut)) if index < 0 else index
            for cut, index in zip(distinct, indices, strict=True)
        ]
        return cuts.replace_strict(distinct, pl.Series(indices, dtype=pl.Int32), default=-1, return_dtype=pl.Int32).to_numpy()

    def _index_of(self, cut: str) -> int:
        """Return the index of the first pattern with a match that ends where the cut does."""
        if len(cut) > _LONG_CUT:
            one = pl.Series([cut])
            hits = (one.str.contains(rf"(?s:.)(?:{rust(p)})(?s:.)\z").item() for p in self.patterns)
        else:
            hits = (pattern.search(cut) for pattern in self._at_end)
        return next(index for index, hit in zip(self.indices, hits, strict=False) if hit)


@dataclass(frozen=True)
class Group:
    """Blocks of rules that are searched together: first the block, then the rule in it."""

    blocks: tuple[Alternatives, ...]

    def search(self, lines: pl.Series) -> Indices:
        """Return for each text the index of the first rule, -1 where there is none."""
        which = self._choice.search(lines)
        found = np.full(len(lines), -1, np.int32)
        for number, block in enumerate(self.blocks):
            rows = np.flatnonzero(which == number)
            if len(rows):
                alone = len(block.indices) == 1
                found[rows] = block.indices[0] if alone else block.search(lines.gather(rows))
        return found

    @cached_property
    def _choice(self) -> Alternatives:
        return Alternatives(tuple(range(len(self.blocks))), tuple(block.union for block in self.blocks))


def _split(n: int, n_parts: int) -> list[tuple[int, int]]:
    """Cut ``range(n)`` into parts of nearly equal length."""
    bounds = [round(part * n / n_parts) for part in range(n_parts + 1)]
    return list(zip(bounds[:-1], bounds[1:], strict=True))
