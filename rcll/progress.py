"""Progress of long work as log records: stages report, whoever listens draws.

A record on logger ``rcll.progress`` carries ``stage``, ``done``, ``total`` and ``bank`` in ``extra``; the
command line turns it into a bar, JSON logging into fields, and nobody has to pass callbacks around. Logger
``rcll.notice`` says in a line what somebody should know while it lasts.
"""

import logging
from collections.abc import Generator
from contextlib import contextmanager

from rcll.logs import get_logger

logger = get_logger("rcll.progress")
notices = get_logger("rcll.notice")


def report(stage: str, done: int, total: int, *, bank: str | None = None) -> None:
    """Say that ``done`` of ``total`` steps of a stage are finished."""
    logger.debug("%s %d/%d", stage, done, total, extra={"stage": stage, "done": done, "total": total, "bank": bank})


def notice(line: str) -> None:
    """Say what is going on, such as for whom we wait."""
    notices.warning("%s", line)


@contextmanager
def listen(handler: logging.Handler) -> Generator[None]:
    """Give the reports to a handler; they go no further, as those who listen have said it."""
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        if not logger.handlers:
            logger.setLevel(logging.NOTSET)
            logger.propagate = True
