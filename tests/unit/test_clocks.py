"""Clocks that disagree: this machine's and the database's."""

from datetime import UTC, datetime, timedelta

import pytest

from rcll.walk.worker import clock_difference

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(("seconds", "words"), [(3_600, "3,600 s ahead of"), (-90, "90 s behind")])
def test_clocks_far_apart_are_said(seconds, words):
    """By how much, which of them is ahead, and which one decides what."""
    line = clock_difference(NOON + timedelta(seconds=seconds), NOON)
    assert line
    assert f"this machine's clock is {words} the database's" in line
    assert "leases, runs and pause windows go by the database's" in line


@pytest.mark.parametrize("seconds", [0, 60, -60])
def test_clocks_that_agree_are_not_worth_a_word(seconds):
    """A minute is what networks and drift make."""
    assert clock_difference(NOON + timedelta(seconds=seconds), NOON) is None
