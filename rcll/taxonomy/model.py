"""What a taxonomy is made of: rules, their order, and findings about a file."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from rcll.frames import DEFAULT_HALL, DEFAULT_ROOM

Dimension = Literal["room", "hall", "layer"]
Tier = Literal["specific", "word", "weak"]

DIMENSIONS: tuple[Dimension, ...] = ("room", "hall", "layer")
TIERS: tuple[Tier, ...] = ("specific", "word", "weak")

#: Language of the technical terms that texts of every language borrow.
LENDER = "en"

#: Raised when the normaliser changes, so that labels made before count as made by another taxonomy.
NORMALISER_VERSION = 1


@dataclass(frozen=True, slots=True)
class Rule:
    """One pattern for one room, hall or layer.

    Attributes:
        label: name of the room or hall; ``'0'`` to ``'3'`` for a layer.
        pattern: in the common form of Rust and Python (``rcll.taxonomy.dialect``), tokens replaced.
        unless: blocks the rule wherever it is found in the text.
        within: the rule sees only this many characters, to the end of the word that stands there.
        times: the rule fires where the pattern is found so often, matches not overlapping.
        language: code of the texts that see the rule, None for all.
        source: the pattern as the file has it.
    """

    id: str
    dimension: Dimension
    label: str
    pattern: str
    unless: str | None = None
    within: int | None = None
    times: int = 1
    tier: Tier = "word"
    language: str | None = None
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    source: str = ""
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong (or doubtful) in a taxonomy file; line 0 means the file as a whole."""

    file: str
    line: int
    message: str
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        """``file:line: message``, as editors jump to it."""
        return f"{self.file}:{self.line}: {self.message}"


@dataclass(frozen=True, eq=False)  # compared by ``hash``; as a key, by identity
class Taxonomy:
    """Ordered rules. ``before`` and ``after`` are a user's own, round the ``base``."""

    base: tuple[Rule, ...]
    before: tuple[Rule, ...] = ()
    after: tuple[Rule, ...] = ()

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """Every rule, in order of priority."""
        return self.before + self.base + self.after

    @cached_property
    def rooms(self) -> tuple[str, ...]:
        """Rooms in order of first mention, the fallback last."""
        return _labels(self.rules, "room", DEFAULT_ROOM)

    @cached_property
    def halls(self) -> tuple[str, ...]:
        """Halls in order of first mention, the fallback last."""
        return _labels(self.rules, "hall", DEFAULT_HALL)

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages that have rules of their own."""
        return tuple(sorted({rule.language for rule in self.rules if rule.language is not None}))

    @cached_property
    def hash(self) -> str:
        """32 hex characters that change with anything that can change a label."""
        seen = [
            (r.id, r.dimension, r.label, r.pattern, r.unless, r.within, r.times, r.tier, r.language) for r in self.rules
        ]
        text = json.dumps([NORMALISER_VERSION, len(self.before), len(self.after), seen])
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def rules_for(self, language: str | None, dimension: Dimension) -> tuple[Rule, ...]:
        """Rules that a text of this language sees, in order of priority.

        Own language first, then (rooms only) the lender's specific terms.
        """

        def own(rules: Iterable[Rule]) -> list[Rule]:
            return [r for r in rules if r.dimension == dimension and r.language in (None, language)]

        lent: list[Rule] = []
        if dimension == "room" and language != LENDER:
            lent = [r for r in self.base if r.dimension == "room" and r.language == LENDER and r.tier == "specific"]
        return tuple(own(self.before) + own(self.base) + lent + own(self.after))


def _labels(rules: Iterable[Rule], dimension: Dimension, fallback: str) -> tuple[str, ...]:
    seen = dict.fromkeys(rule.label for rule in rules if rule.dimension == dimension)
    seen.pop(fallback, None)
    return (*seen, fallback)
