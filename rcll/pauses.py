"""Times of day in which nothing is written: "22:00-06:00", or with a zone "12:00-13:00 Europe/Berlin"."""

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, time, tzinfo
from typing import Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_SHAPE = re.compile(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})(?:\s+(\S+))?")


@dataclass(frozen=True, slots=True)
class PauseWindow:
    """From ``start`` until before ``end``, over midnight where the end is the earlier; no zone means local time."""

    start: time
    end: time
    zone: tzinfo | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a window.

        Raises:
            ValueError: it is none; the message says what was expected.
        """
        found = _SHAPE.fullmatch(text.strip())
        with suppress(ValueError, OSError, ZoneInfoNotFoundError):  # no such hour, no such zone
            if found:
                start, end = time(int(found[1]), int(found[2])), time(int(found[3]), int(found[4]))
                zone = ZoneInfo(found[5]) if found[5] else None
                if start != end:
                    return cls(start, end, zone)
        raise ValueError(
            f"pause window '{text[:60]}' cannot be read; expected HH:MM-HH:MM, the two different, and a time zone "
            "behind it if it is not this machine's, e.g. '22:00-06:00 Europe/Berlin'"
        )

    def contains(self, moment: datetime) -> bool:
        """Whether a moment (with a zone) lies in the window."""
        clock = moment.astimezone(self.zone).time()
        if self.start < self.end:
            return self.start <= clock < self.end
        return clock >= self.start or clock < self.end
