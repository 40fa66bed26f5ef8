"""How many rows a write transaction takes, tuned while it runs, and how long to pause between two."""

from dataclasses import dataclass

#: Write time of one transaction. A writer that meets one of our rows waits for the rest of it, and shall
#: never wait for 100 ms.
TARGET_SECONDS = 0.08
#: Below this the fixed cost of a transaction outweighs everything.
MIN_ROWS = 20
_FIRST_ROWS = {True: 50, False: 500}


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """Ceilings that an operator sets; the loader stays below them by itself where it can."""

    batch_rows: int = 5_000
    """Rows of one transaction at most."""
    rows_per_second: float | None = None
    """Rows written in a second at most, over the whole load; None for as fast as transactions allow."""
    vacuum: bool = False
    """VACUUM memory_units after each range of pages: heap growth +7 % in place of +18 %, but a bank that is
    created meanwhile waits until the VACUUM has been cancelled (a fraction of a second)."""


class Pace:
    """Rows per transaction for two kinds of update: those that must leave their page, and HOT ones.

    The first kind costs about 1 ms a row, the second a twentieth of that, so they are tuned apart.
    """

    def __init__(self, limits: LoadLimits) -> None:
        self._limits = limits
        rate = limits.rows_per_second
        self._most = max(1, min(limits.batch_rows, int(rate) if rate else limits.batch_rows))
        self._rows = dict(_FIRST_ROWS)

    def rows(self, *, leaves_page: bool) -> int:
        """Rows of the next transaction."""
        return min(self._rows[leaves_page], self._most)

    def learn(self, n_rows: int, seconds: float, *, leaves_page: bool) -> None:
        """Tune to what a transaction took; a short remainder of a round tells nothing."""
        planned = self._rows[leaves_page]
        if 2 * n_rows >= min(planned, self._most):
            wanted = int(n_rows * TARGET_SECONDS / max(seconds, 1e-6))
            self._rows[leaves_page] = max(MIN_ROWS, min(wanted, 2 * planned, self._limits.batch_rows))

    def shrink(self, *, leaves_page: bool) -> None:
        """Halve, after a transaction that met a timeout or a deadlock."""
        self._rows[leaves_page] = max(1, self._rows[leaves_page] // 2)

    def pause(self, n_rows: int, seconds: float) -> float:
        """Seconds to wait after a transaction so that the rate is kept."""
        rate = self._limits.rows_per_second
        return max(0.0, n_rows / rate - seconds) if rate else 0.0
