"""Where Prefect keeps its things, and what it must not do, unless the operator has said otherwise."""

import os
from pathlib import Path


def prepare_prefect(home: Path) -> None:
    """Set Prefect's environment; call it before prefect is imported, as Prefect reads it then.

    Without PREFECT_API_URL a flow starts a server of its own for as long as it runs; on a busy machine
    that took longer than Prefect's 20 s default.
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
