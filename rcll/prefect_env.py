"""Where Prefect keeps its things, and what it must not do, unless the operator has said otherwise."""

import os
from pathlib import Path

from rcll.errors import InputError


def prepare_prefect(home: Path) -> None:
    """Set Prefect's environment; call it before prefect is imported, as Prefect reads it then.

    Without PREFECT_API_URL a flow starts a server of its own for as long as it runs; on a busy machine
    that took longer than Prefect's 20 s default.

    Raises:
        InputError: Prefect's folder cannot be made.
    """
    defaults = {
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
        "PREFECT_LOGGING_LEVEL": "CRITICAL",  # rcll says itself what went wrong, in one line
        "PREFECT_CLI_PROMPT": "false",
    }
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    folder = Path(os.environ["PREFECT_HOME"])
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"folder {folder} cannot be made: {error.strerror}; expected a folder that can be written; set RCLL_HOME"
        ) from None
