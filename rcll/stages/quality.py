"""A guard for every run: how much fell to the fallback, how skewed the rooms are, what changed, which languages."""

from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from rcll.frames import DEFAULT_ROOM
from rcll.stages.classify import UNSUPPORTED

#: Key of the units without letters among the languages.
NO_LANGUAGE = "none"


@dataclass(frozen=True, slots=True)
class QualityLimits:
    """Shares of all units above which a run warns."""

    general: float = 0.5
    largest_room: float = 0.6
    changed: float = 0.2
    unsupported: float = 0.05


@dataclass(frozen=True, slots=True)
class Quality:
    """What a run says about its labels; shares are of ``n_units``, 0 if there are none.

    Attributes:
        general: share of units in room general, by a rule or without one.
        undecided: share of units that no room rule matches.
        largest_room: name of the largest room besides general, None if there is none.
        largest_share: its share.
        changed: share of the units known before whose room or hall is another now; None if none was known.
        languages: units per language, most first; ``other`` are those without rules, ``none`` those
            without letters.
        unsupported: share of units whose language has no rules.
        limits: when to warn.
    """

    n_units: int
    general: float
    undecided: float
    largest_room: str | None
    largest_share: float
    changed: float | None
    languages: dict[str, int]
    unsupported: float
    limits: QualityLimits

    @property
    def warnings(self) -> list[str]:
        """One sentence for each limit that is exceeded."""
        limits = self.limits
        found = [
            (self.general, limits.general, "of the units are in room 'general'; see 'rcll taxonomy suggest'"),
            (
                self.largest_share,
                limits.largest_room,
                f"of the units are in room '{self.largest_room}'; its rules may be too wide",
            ),
            (self.changed or 0.0, limits.changed, "of the units known before change their room or hall"),
            (self.unsupported, limits.unsupported, "of the units are in a language without rules"),
        ]
        return [f"{share:.0%} {what} (limit {limit:.0%})" for share, limit, what in found if share > limit]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self) | {"warnings": self.warnings}


def quality(
    labels: pl.DataFrame | pl.LazyFrame,
    previous: pl.DataFrame | pl.LazyFrame | None = None,
    limits: QualityLimits | None = None,
) -> Quality:
    """Judge labels as a whole.

    Args:
        labels: unit_id, room, hall, room_rule and language, as in frames.LABELS.
        previous: unit_id, room and hall before the run, for some or all of the units.
        limits: when to warn.
    """
    counts = labels.lazy().select("room", "room_rule", "language")
    rooms = _count(counts, "room")
    languages = _count(counts.with_columns(pl.col("language").fill_null(NO_LANGUAGE)), "language")
    n_units = sum(rooms.values())
    undecided = counts.filter(pl.col("room_rule").is_null()).select(pl.len()).collect().item()
    largest = next((room for room in rooms if room != DEFAULT_ROOM), None)
    return Quality(
        n_units=n_units,
        general=_share(rooms.get(DEFAULT_ROOM, 0), n_units),
        undecided=_share(int(undecided), n_units),
        largest_room=largest,
        largest_share=_share(rooms[largest], n_units) if largest is not None else 0.0,
        changed=None if previous is None else _changed(labels.lazy(), previous.lazy()),
        languages=languages,
        unsupported=_share(languages.get(UNSUPPORTED, 0), n_units),
        limits=limits or QualityLimits(),
    )


def _count(frame: pl.LazyFrame, column: str) -> dict[str, int]:
    """Return how often each value stands in the column, most frequent first."""
    counts = frame.group_by(column).len().sort(["len", column], descending=[True, False]).collect()
    return dict(zip(counts[column].to_list(), counts["len"].to_list(), strict=True))


def _changed(labels: pl.LazyFrame, previous: pl.LazyFrame) -> float | None:
    known = labels.join(previous, on="unit_id", suffix="_before")
    is_changed = pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_before")) for name in ("room", "hall"))
    return known.select(is_changed.mean()).collect().item()


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
