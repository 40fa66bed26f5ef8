"""How far a long flow is, for those who look at it in Prefect: an artifact that moves, with rate and time left."""

import logging
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from uuid import UUID

from prefect.artifacts import create_progress_artifact, update_progress_artifact

from flows.artifacts import API_ERRORS
from rcll.logs import get_logger
from rcll.progress import listen, report

logger = get_logger("rcll.flows")

#: Between two updates of the artifact.
UPDATE_SECONDS = 5.0


class Meter(logging.Handler):
    """Adds what the writer reports of one part to the parts before it, and says it as a stage of its own."""

    def __init__(self, stage: str, total: int) -> None:
        super().__init__()
        self._stage, self._total, self._before, self._done = stage, max(total, 1), 0, 0
        self._began = time.monotonic()
        self._updated_at = self._began
        self._artifact: UUID = create_progress_artifact(0.0, key=stage, description=self._words())  # type: ignore[assignment]

    def emit(self, record: logging.LogRecord) -> None:
        """Take a report of the writer."""
        values = record.__dict__
        if values.get("stage") in ("load", "record"):
            self._show(self._before + int(values["done"]))

    def advance_to(self, done: int) -> None:
        """A part is finished; ``done`` units are through in all."""
        self._before = done
        self._show(done)

    def close_up(self) -> None:
        """Bring the artifact to where the work ended."""
        self._updated_at = float("-inf")
        self._show(self._done)

    def _show(self, done: int) -> None:
        self._done = done
        report(self._stage, min(done, self._total), self._total)
        if time.monotonic() - self._updated_at < UPDATE_SECONDS:
            return
        self._updated_at = time.monotonic()
        share = min(100.0, 100 * done / self._total)
        with suppress(*API_ERRORS):  # the next one may come through
            update_progress_artifact(self._artifact, progress=round(share, 1), description=self._words())
        logger.info("%s", self._words(), extra={"stage": self._stage})

    def _words(self) -> str:
        speed = self._done / max(time.monotonic() - self._began, 1e-6)
        left = (self._total - self._done) / speed if speed >= 1 else None
        until = "" if left is None else f", about {max(left, 0) / 60:,.0f} min left"
        return f"{self._done:,} of about {self._total:,} units, {speed:,.0f} a second{until}"


@contextmanager
def metered(meter: Meter) -> Generator[Meter]:
    """Let a meter listen to the writer."""
    with listen(meter):
        try:
            yield meter
        finally:
            meter.close_up()
