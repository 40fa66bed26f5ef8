"""Fills the slots of a sentence: ``{gw}`` from a list, ``{3..40}`` a number, ``{date}`` from the unit's own time."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

_SLOT = re.compile(r"\{(?:([a-z]\w*)|(\d+)\.\.(\d+))\}")
_MONTHS = tuple(
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)
_MONATE = tuple(
    "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split()  # noqa: SIM905
)
_MESES = tuple(
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre".split()  # noqa: SIM905
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True)
class Grammar:
    """What the slots of one bank can become."""

    lists: Mapping[str, Sequence[str]]
    people: Sequence[str]

    def fill(self, frame: str, *, rng: random.Random, people: random.Random, when: datetime, month: int) -> str:
        """Make a sentence of a frame.

        Args:
            frame: a sentence with slots.
            rng: chooses list values and numbers.
            people: chooses names, apart, so that a wording can keep its people while its numbers change.
            when: time of the event, for date, weekday, clock and calver.
            month: month of the matter's own past (1..12), the same in all its wordings.
        """
        first, second = people.sample(self.people, 2)
        given = {"first": first, "first2": second, "month": _MONTHS[month - 1], **_dates(when)}

        def value(match: re.Match[str]) -> str:
            name, low, high = match.groups()
            if name is None:
                return str(rng.randint(int(low), int(high))).zfill(len(low))
            return given[name] if name in given else _SLOT.sub(value, rng.choice(self.lists[name]))

        return _SLOT.sub(value, frame)


def uses_month(frames: Sequence[str]) -> bool:
    """Whether any frame speaks of the matter's past month."""
    return any("{month}" in frame for frame in frames)


def _dates(when: datetime) -> dict[str, str]:
    month = when.month - 1
    year, week, weekday = when.isocalendar()
    return {
        "date": _day(when),
        "tuesday": _day(when - timedelta(days=(weekday - 2) % 7)),
        "wednesday": _day(when - timedelta(days=(weekday - 3) % 7)),
        "datum": f"{when.day}. {_MONATE[month]}",
        "fecha": f"{when.day} de {_MESES[month]}",
        "weekday": _WEEKDAYS[weekday - 1],
        "clock": when.strftime("%H:%M"),
        "calver": f"{year}.{week:02d}.1",
    }


def _day(when: date) -> str:
    return f"{when.day} {_MONTHS[when.month - 1]}"
