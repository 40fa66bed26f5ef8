"""Which rules can match which texts, found in one pass over the texts whatever the number of rules."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from rcll.taxonomy.dialect import CAPS
from rcll.taxonomy.literals import expected_share, required
from rcll.taxonomy.model import Rule

Rows = npt.NDArray[np.uint32]

#: A rule whose literals are expected in more texts than this share is tried on all.
_TOO_COMMON = 2.0


@dataclass(frozen=True)
class Candidates:
    """Texts that each rule has to be tried on; ``rows`` of rule i are those between its bounds, ascending.

    Rules that may match any text are in ``everywhere``.
    """

    rows: Rows
    bounds: npt.NDArray[np.int64]
    everywhere: frozenset[int]

    def of(self, rule: int, is_open: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
        """Return the open texts that a rule has to be tried on, ascending and each once."""
        if rule in self.everywhere:
            return np.flatnonzero(is_open)
        rows = self.rows[self.bounds[rule] : self.bounds[rule + 1]]
        rows = rows[is_open[rows]]
        if len(rows) > 1:
            rows = rows[np.concatenate(([True], rows[1:] != rows[:-1]))]
        return rows.astype(np.intp)


class LiteralIndex:
    """The literals that rules cannot do without, each with its rules."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        """Read the patterns; rules are known by their place in the sequence."""
        by_literal: dict[str, list[int]] = {}
        everywhere: set[int] = set()
        for index, rule in enumerate(rules):
            needed = required(rule.pattern)
            if needed is None or expected_share(needed) > _TOO_COMMON:
                everywhere.add(index)
                continue
            for literal in needed:
                by_literal.setdefault(literal, []).append(index)
        self.n_rules = len(rules)
        self.everywhere = frozenset(everywhere)
        self.literals = sorted(by_literal)
        self._by_literal = by_literal
        owners = [by_literal[literal] for literal in self.literals]
        self._n_owners = np.array([len(o) for o in owners], np.int64)
        self._first_owner = np.concatenate(([0], np.cumsum(self._n_owners)))[:-1]
        self._owners = np.array([index for o in owners for index in o], np.min_scalar_type(self.n_rules))

    def likely(self, line: str) -> list[int]:
        """Return the rules that have to be tried on one normalised text, in order."""
        spaced = line.replace(CAPS, " ")
        found = (owners for literal, owners in self._by_literal.items() if literal in spaced)
        return sorted(self.everywhere.union(*found))

    def candidates(self, lines: pl.Series) -> Candidates:
        """Return the normalised texts that each rule has to be tried on."""
        rows, literals = self._find(lines)
        n_owners = self._n_owners[literals]
        # Each found literal stands for all its rules: spread its row over them.
        starts = np.cumsum(n_owners) - n_owners
        within = np.arange(int(n_owners.sum())) - np.repeat(starts, n_owners)
        rules = self._owners[np.repeat(self._first_owner[literals], n_owners) + within]
        order = np.argsort(rules, kind="stable")  # of 16 bits: a radix sort
        bounds = np.searchsorted(rules[order], np.arange(self.n_rules + 1))
        return Candidates(np.repeat(rows, n_owners)[order], bounds, self.everywhere)

    def _find(self, lines: pl.Series) -> tuple[Rows, npt.NDArray[np.uint32]]:
        """Return the row and the number of every literal found, rows ascending."""
        if not self.literals:
            return np.empty(0, np.uint32), np.empty(0, np.uint32)
        spaced = lines.str.replace_all(CAPS, " ", literal=True)
        found = spaced.str.extract_many(self.literals, overlapping=True)
        rows = np.repeat(np.arange(len(lines), dtype=np.uint32), found.list.len().to_numpy())
        numbers = pl.Series(range(len(self.literals)), dtype=pl.UInt32)
        words = found.list.explode(keep_nulls=False, empty_as_null=False)
        return rows, words.replace_strict(self.literals, numbers, return_dtype=pl.UInt32).to_numpy()
