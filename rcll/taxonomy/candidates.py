"""Which rules can match which texts, found in one pass over the texts whatever the number of rules."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from rcll.taxonomy.literals import NO_WORD, Strings, expected_share, flat, required
from rcll.taxonomy.model import Rule

_NO_WORD = [chr(code) for code in range(128) if re.fullmatch(NO_WORD, chr(code))]

Rows = npt.NDArray[np.uint32]

#: A rule whose literals are expected in more texts than this share is tried on all.
_TOO_COMMON = 2.0


@dataclass(frozen=True)
class Candidates:
    """Texts that each rule has to be tried on.

    Rules with the same literals share a set of them (``sets``; -1: any text may match): the ``rows`` of a set are those
    between its bounds, ascending, a row as often as its text holds a literal.
    """

    rows: Rows
    bounds: npt.NDArray[np.int64]
    sets: npt.NDArray[np.int64]

    def of(self, rule: int, is_open: npt.NDArray[np.bool_], times: int = 1) -> npt.NDArray[np.intp]:
        """Return the open texts that a rule has to be tried on, ascending and each once.

        A rule that asks for several finds needs as many literals: matches do not overlap, each holds one.
        """
        number = self.sets[rule]
        if number < 0:
            return np.flatnonzero(is_open)
        rows = self.rows[self.bounds[number] : self.bounds[number + 1]]
        if times > 1:
            rows = rows[: len(rows) - times + 1][rows[times - 1 :] == rows[: len(rows) - times + 1]]
        rows = rows[is_open[rows]]
        if len(rows) > 1:
            rows = rows[np.concatenate(([True], rows[1:] != rows[:-1]))]
        return rows.astype(np.intp)


def flat_texts(lines: pl.Series) -> pl.Series:
    """Return the normalised texts as literals are searched in them (``rcll.taxonomy.literals.flat``)."""
    text = pl.col("text")
    flattened = lines.to_frame("text").with_columns(text.str.replace_many(_NO_WORD, [" "] * len(_NO_WORD)))
    is_wide = text.str.len_bytes() != text.str.len_chars()
    wide = text.str.replace_all(r"([^\x00-\x7f])", " ${1} ")
    if not flattened.select(is_wide.any()).item():
        return flattened["text"]
    return flattened.select(pl.when(is_wide).then(wide).otherwise(text))["text"]


class LiteralIndex:
    """The literals that rules cannot do without, each with the sets that it belongs to."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        """Read the patterns; rules are known by their place in the sequence."""
        sets: dict[Strings, int] = {}
        self.sets = np.full(len(rules), -1, np.int64)
        for index, rule in enumerate(rules):
            needed = required(rule.pattern)
            if needed is not None and expected_share(needed) <= _TOO_COMMON:
                self.sets[index] = sets.setdefault(needed, len(sets))
        by_literal: dict[str, list[int]] = {}
        for literals, number in sets.items():
            for literal in literals:
                by_literal.setdefault(literal, []).append(number)
        self.n_sets = len(sets)
        self.everywhere = frozenset(np.flatnonzero(self.sets < 0).tolist())
        self.literals = sorted(by_literal)
        self._by_literal = by_literal
        owners = [by_literal[literal] for literal in self.literals]
        self._n_owners = np.array([len(o) for o in owners], np.int64)
        self._first_owner = np.concatenate(([0], np.cumsum(self._n_owners)))[:-1]
        self._owners = np.array([number for o in owners for number in o], np.min_scalar_type(self.n_sets))

    def likely(self, line: str) -> list[int]:
        """Return the rules that have to be tried on one normalised text, in order."""
        searched = flat(line)
        found = {n for literal, numbers in self._by_literal.items() if literal in searched for n in numbers}
        return np.flatnonzero(np.isin(self.sets, [-1, *found])).tolist()

    def candidates(self, lines: pl.Series) -> Candidates:
        """Return the normalised texts that each rule has to be tried on."""
        rows, literals = self._find(lines)
        n_owners = self._n_owners[literals]
        # Each found literal stands for all its sets: spread its row over them.
        starts = np.cumsum(n_owners) - n_owners
        within = np.arange(int(n_owners.sum())) - np.repeat(starts, n_owners)
        numbers = self._owners[np.repeat(self._first_owner[literals], n_owners) + within]
        order = np.argsort(numbers, kind="stable")  # of 16 bits: a radix sort
        bounds = np.searchsorted(numbers[order], np.arange(self.n_sets + 1))
        return Candidates(np.repeat(rows, n_owners)[order], bounds, self.sets)

    def _find(self, lines: pl.Series) -> tuple[Rows, npt.NDArray[np.uint32]]:
        """Return the row and the number of every literal found, rows ascending."""
        if not self.literals:
            return np.empty(0, np.uint32), np.empty(0, np.uint32)
        found = flat_texts(lines).str.extract_many(self.literals, overlapping=True)
        rows = np.repeat(np.arange(len(lines), dtype=np.uint32), found.list.len().to_numpy())
        numbers = pl.Series(range(len(self.literals)), dtype=pl.UInt32)
        words = found.list.explode(keep_nulls=False, empty_as_null=False)
        return rows, words.replace_strict(self.literals, numbers, return_dtype=pl.UInt32).to_numpy()
