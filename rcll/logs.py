"""What rcll writes to Python's logging: every record says to which run, bank and stage it belongs.

Where RCLL_LOG_FORMAT asks for it, records go to standard error as lines for people, or as JSON for collectors.
"""

import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

_FIELDS = ("run", "bank", "stage")
_around: ContextVar[Mapping[str, str]] = ContextVar("around", default={})  # noqa: B039 - never altered


class _Located(logging.Filter):
    """Gives a record what it was not logged with: the fields of the work around it, None where there is none."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name in _FIELDS:
            if getattr(record, name, None) is None:
                setattr(record, name, _around.get().get(name))
        return True


def get_logger(name: str) -> logging.Logger:
    """The logger of that name; whatever handler takes its records finds ``run``, ``bank`` and ``stage`` on them."""
    found = logging.getLogger(name)
    if not any(isinstance(each, _Located) for each in found.filters):
        found.addFilter(_Located())
    return found


@contextmanager
def logged_as(**fields: str | None) -> Generator[None]:
    """Let records of the block bear these fields (of run, bank, stage); None leaves what is around."""
    token = _around.set({**_around.get(), **{name: value for name, value in fields.items() if value is not None}})
    try:
        yield
    finally:
        _around.reset(token)


class _Lines(logging.StreamHandler):  # pyright: ignore[reportMissingTypeArgument] - of whatever stderr is
    """Ours, so that it is found again."""


def log_to_stderr(log_format: Literal["text", "json"] | None) -> None:
    """Let loggers below ``rcll`` write, once a process; progress of stages only as JSON, where a program counts it."""
    ours, progress = logging.getLogger("rcll"), logging.getLogger("rcll.progress")
    if log_format is None or any(isinstance(each, _Lines) for each in ours.handlers):
        return
    handler = _Lines()
    if log_format == "json":
        from pythonjsonlogger.json import JsonFormatter  # noqa: PLC0415 - most runs need none

        renamed = {"asctime": "time", "levelname": "level", "name": "logger"}
        handler.setFormatter(JsonFormatter("%(asctime)s %(levelname)s %(name)s %(message)s", rename_fields=renamed))
        progress.addHandler(handler)
        progress.setLevel(logging.DEBUG)
        progress.propagate = False
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    ours.propagate = False  # Prefect's handler would say it again
