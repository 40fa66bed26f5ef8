"""Which rules can match which texts, found in one pass over the texts whatever the number of rules.

A pattern is taken apart into alternatives (``rcll.taxonomy.literals``), and each is known by literals without which it
cannot match. So a list of a thousand words is tried only on texts that hold one of them, and only with the words that
these texts hold; alternatives without a rare literal are searched for on every open text, without the others.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from rcll.taxonomy.dialect import rust
from rcll.taxonomy.literals import NO_WORD, Strings, alternatives, expected_share, flat, required

#: What each byte of a text becomes; NUL, which normalised texts do not hold, stays.
_TO_SPACES = bytes(
    32 if 0 < code < 128 and re.fullmatch(NO_WORD, chr(code)) else code  # noqa: PLR2004 - ASCII
    for code in range(256)
)

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]

#: An alternative whose literals are expected in more texts than this share is tried on all.
_TOO_COMMON = 0.2
#: So many patterns without a rare literal, of so many characters together, are searched for at once; the DFA of more
#: would not fit its cache of 2 MB, and a search would be twenty times slower.
_MOST_TOGETHER, _MOST_CHARS = 8, 30_000
#: Characters by which literals are found in a single text.
_KEY = 4


@dataclass(frozen=True, slots=True)
class Family:
    """A pattern, of one rule or of several that ask for different numbers of finds.

    Attributes:
        alternatives: what it is made of, in the common form, in order.
        common: numbers of those without a rare literal.
    """

    alternatives: tuple[str, ...]
    common: tuple[int, ...]

    @property
    def is_common(self) -> bool:
        """Whether any text may match: no literal tells."""
        return len(self.common) == len(self.alternatives)

    def only(self, numbers: Iterable[int]) -> str:
        """Return the pattern, for Rust, of these alternatives beside the common ones."""
        chosen = sorted({*numbers, *self.common})
        return "|".join(rust(self.alternatives[number]) for number in chosen)


def flat_texts(lines: pl.Series) -> pl.Series:
    """Return the normalised texts as literals are searched in them (``rcll.taxonomy.literals.flat``).

    Bytes are translated in all texts at once: no text holds the NUL that is put between them.
    """
    if lines.is_empty():
        return lines
    joined = lines.str.join("\0").cast(pl.Binary).item().translate(_TO_SPACES)
    flattened = pl.Series([joined]).cast(pl.String).str.split("\0").explode()
    is_wide = flattened.str.len_bytes() != flattened.str.len_chars()
    if not is_wide.any():
        return flattened
    rows = is_wide.arg_true()
    return flattened.scatter(rows, flattened[rows].str.replace_all(r"([^\x00-\x7f])", " ${1} "))


class LiteralIndex:
    """Patterns taken apart, and the literals that lead to their alternatives."""

    def __init__(self, patterns: Sequence[str]) -> None:
        """Read the patterns, in the common form; they are known by their place in the sequence."""
        numbers = {pattern: number for number, pattern in enumerate(dict.fromkeys(patterns))}
        self.family_of = [numbers[pattern] for pattern in patterns]
        self.families: list[Family] = []
        places: dict[tuple[str, int], list[int]] = {}
        for pattern, number in numbers.items():
            parts = alternatives(pattern)
            # What follows the head that a rule sees decides about \B at its end: no shortcut there.
            needed = [None if r"\B" in pattern else _rare_literals(part) for part in parts]
            self.families.append(Family(parts, tuple(n for n, strings in enumerate(needed) if strings is None)))
            for place, strings in enumerate(needed):
                for literal in strings or ():
                    places.setdefault((literal, number), []).append(place)
        self._arrange(places)
        self.screens, self.screen_of = _screens(self.families)

    def _arrange(self, places: dict[tuple[str, int], list[int]]) -> None:
        """Lay out the links from literals to families: those of a literal stand together."""
        links = sorted(places)
        self.literals = sorted({literal for literal, _ in links})
        self._family_of_link = [family for _, family in links]
        self.link_family = np.array(self._family_of_link, np.min_scalar_type(len(self.families)))
        self.link_places = [tuple(places[link]) for link in links]
        starts = {literal: start for start, (literal, _) in reversed(list(enumerate(links)))}
        self._first_link = np.array([starts[literal] for literal in self.literals], np.int64)
        self._n_links = np.diff(np.append(self._first_link, len(links)))
        self._by_key: dict[str, list[tuple[str, list[int]]]] = {}
        for literal, first, n_links in zip(self.literals, self._first_link, self._n_links, strict=True):
            own = list(range(int(first), int(first + n_links)))
            self._by_key.setdefault(literal[:_KEY], []).append((literal, own))
        self._key_sizes = sorted({len(key) for key in self._by_key})
        self._always = {number: family.common for number, family in enumerate(self.families) if family.common}

    def likely(self, line: str) -> dict[int, list[int]]:
        """Return the families that can match one normalised text, with the numbers of the alternatives that can."""
        searched = flat(line)
        keys = {searched[at : at + size] for size in self._key_sizes for at in range(len(searched) - size + 1)}
        found = {number: set(common) for number, common in self._always.items()}
        for key in keys & self._by_key.keys():
            for literal, links in self._by_key[key]:
                if literal in searched:
                    for link in links:
                        found.setdefault(self._family_of_link[link], set()).update(self.link_places[link])
        return {number: sorted(places) for number, places in found.items()}

    def links(self, lines: pl.Series) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Return the row and the link of every literal found, once for each family that has it; rows ascending."""
        if not self.literals:
            return np.empty(0, np.uint32), np.empty(0, np.int64)
        found = flat_texts(lines).str.extract_many(self.literals, overlapping=True)
        rows = np.repeat(np.arange(len(lines), dtype=np.uint32), found.list.len().to_numpy())
        numbers = pl.Series(range(len(self.literals)), dtype=pl.UInt32)
        words = found.list.explode(keep_nulls=False, empty_as_null=False)
        literals = words.replace_strict(self.literals, numbers, return_dtype=pl.UInt32).to_numpy()
        n_links = self._n_links[literals]
        starts = np.cumsum(n_links) - n_links
        within = np.arange(int(n_links.sum())) - np.repeat(starts, n_links)
        return np.repeat(rows, n_links), np.repeat(self._first_link[literals], n_links) + within


class Candidates:
    """Texts that each pattern has to be tried on, and with which of its alternatives."""

    def __init__(self, index: LiteralIndex, lines: pl.Series) -> None:
        """Search the normalised texts for all literals at once."""
        self._index, self._lines = index, lines
        rows, links = index.links(lines)
        families = index.link_family[links]
        order = np.argsort(families, kind="stable")  # of 16 bits: a radix sort
        self._rows, self._links = rows[order], links[order]
        self._bounds = np.searchsorted(families[order], np.arange(len(index.families) + 1))
        self._known: dict[str, tuple[Mask, Mask]] = {}

    def of(self, pattern: int, is_open: Mask, times: int = 1) -> tuple[Rows, str]:
        """Return the open texts, ascending, that a pattern has to be tried on, and what of it to search, for Rust.

        A rule that asks for several finds needs as many literals: matches do not overlap, each holds one.
        """
        number = self._index.family_of[pattern]
        family = self._index.families[number]
        is_tried = np.zeros(len(is_open), np.bool_)
        if family.common:
            is_tried |= self._hold(self._index.screens[self._index.screen_of[number]], is_open)
            if not family.is_common:
                is_tried = self._hold(family.only(()), is_tried & is_open).copy()
        at = slice(self._bounds[number], self._bounds[number + 1])
        rows = self._rows[at]
        several = rows[times - 1 :]
        is_tried[several[several == rows[: len(several)]]] = True
        is_tried &= is_open
        links = np.flatnonzero(np.bincount(self._links[at][is_tried[rows]]))
        places = {place for link in links.tolist() for place in self._index.link_places[link]}
        return np.flatnonzero(is_tried), family.only(places)

    def _hold(self, pattern: str, is_asked: Mask) -> Mask:
        """Tell which of the texts asked about match; what is known from before is not searched again."""
        n_texts = len(is_asked)
        is_known, is_hit = self._known.setdefault(pattern, (np.zeros(n_texts, np.bool_), np.zeros(n_texts, np.bool_)))
        new = np.flatnonzero(is_asked & ~is_known)
        if len(new):
            is_hit[new] = self._lines[pl.Series(new)].str.contains(pattern).to_numpy()
            is_known[new] = True
        return is_hit


def _screens(families: Sequence[Family]) -> tuple[list[str], dict[int, int]]:
    """Put what is common in neighbouring families together; return the patterns, and which one each family is in."""
    patterns: list[list[str]] = []
    screen_of: dict[int, int] = {}
    for number, family in enumerate(families):
        if not family.common:
            continue
        pattern = family.only(())
        last = patterns[-1] if patterns else []
        if not last or len(last) == _MOST_TOGETHER or sum(map(len, last)) + len(pattern) > _MOST_CHARS:
            patterns.append([])
        patterns[-1].append(pattern)
        screen_of[number] = len(patterns) - 1
    return ["|".join(parts) for parts in patterns], screen_of


def _rare_literals(pattern: str) -> Strings | None:
    """Return literals of which every match holds one, None if they are too common to tell anything."""
    needed = required(pattern)
    return needed if needed is not None and expected_share(needed) <= _TOO_COMMON else None
