"""Lines about a run on standard error, where RCLL_LOG_FORMAT asks for them: for people, or JSON for collectors."""

import logging
from typing import Literal


def log_to_stderr(log_format: Literal["text", "json"] | None) -> None:
    """Let loggers below ``rcll`` write; progress of stages only as JSON, where a program counts it."""
    if log_format is None:
        return
    handler = logging.StreamHandler()
    if log_format == "json":
        from pythonjsonlogger.json import JsonFormatter  # noqa: PLC0415 - most runs need none

        renamed = {"asctime": "time", "levelname": "level", "name": "logger"}
        handler.setFormatter(JsonFormatter("%(asctime)s %(levelname)s %(name)s %(message)s", rename_fields=renamed))
        logging.getLogger("rcll.progress").addHandler(handler)
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    flows = logging.getLogger("rcll.flows")
    flows.addHandler(handler)
    flows.setLevel(logging.INFO)
    flows.propagate = False
