"""What the jobs of the torture tests say, so that a test knows how far one has come before it kills it."""

import sys
from collections.abc import Callable

from rcll.errors import RcllError


def say(word: str) -> None:
    """A line on standard output, at once."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def told(work: Callable[[], object]) -> int:
    """Say ``begun`` before the work and ``done`` after it; a known error becomes one line and its exit code."""
    say("begun")
    try:
        work()
    except RcllError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    say("done")
    return 0
