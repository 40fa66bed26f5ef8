"""How long a writer waits between two transactions when those whom it shares the server with begin to suffer."""

from dataclasses import dataclass

#: The first pause, and the longest; it doubles while the server suffers and halves while it does not.
FIRST_SECONDS, LONGEST_SECONDS = 0.05, 5.0


@dataclass(frozen=True, slots=True)
class Pressure:
    """What a look at the server found: seconds of the smallest query, bytes that the slowest standby is behind."""

    latency: float
    lag: int


@dataclass(frozen=True, slots=True)
class PressureLimits:
    """From where on a writer steps back."""

    latency: float
    lag: int

    def exceeded_by(self, found: Pressure) -> bool:
        """Whether either limit is passed."""
        return found.latency > self.latency or found.lag > self.lag


def next_pause(pause: float, found: Pressure, limits: PressureLimits) -> float:
    """The pause after a look, from the one before it: twice as long under pressure, else half as long, in the end 0."""
    if limits.exceeded_by(found):
        return min(max(2 * pause, FIRST_SECONDS), LONGEST_SECONDS)
    return pause / 2 if pause > FIRST_SECONDS else 0.0
