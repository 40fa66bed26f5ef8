"""When a writer waits: times of day, and a server that suffers."""

from datetime import UTC, datetime

import pytest

from rcll.pauses import PauseWindow
from rcll.stages.throttle import LONGEST_SECONDS, Pressure, PressureLimits, next_pause

LIMITS = PressureLimits(latency=0.1, lag=1_000)


@pytest.mark.parametrize(
    ("window", "clock", "is_inside"),
    [
        ("22:00-06:00 UTC", "22:00", True),
        ("22:00-06:00 UTC", "05:59", True),
        ("22:00-06:00 UTC", "06:00", False),
        ("12:00-13:30 UTC", "13:29", True),
        ("12:00-13:30 UTC", "11:59", False),
        ("12:00-13:30 Asia/Kolkata", "06:45", True),
        (" 9:00 - 10:00 UTC ", "09:30", True),
    ],
)
def test_window_holds_its_times(window, clock, is_inside):
    """The start belongs to a window, the end does not; it may go over midnight and have a zone."""
    moment = datetime.fromisoformat(f"2026-03-02T{clock}:00").replace(tzinfo=UTC)
    assert PauseWindow.parse(window).contains(moment) is is_inside


@pytest.mark.parametrize("text", ["", "tonight", "25:00-06:00", "22:00", "22:00-22:00", "22:00-06:00 Mars/Base"])
def test_window_of_nonsense_is_refused(text):
    """The message shows how it is written."""
    with pytest.raises(ValueError, match="expected HH:MM-HH:MM"):
        PauseWindow.parse(text)


def test_pause_grows_under_pressure_and_goes_when_it_ends():
    """Either limit makes it double up to the longest; in the calm it halves down to nothing."""
    pause, seen = 0.0, []
    for found in [Pressure(0.2, 0), Pressure(0.0, 2_000)] * 6:
        pause = next_pause(pause, found, LIMITS)
        seen.append(pause)
    assert seen == sorted(seen)
    assert seen[0] > 0
    assert seen[-1] == LONGEST_SECONDS
    for _ in range(10):
        pause = next_pause(pause, Pressure(0.01, 0), LIMITS)
    assert pause == 0.0
