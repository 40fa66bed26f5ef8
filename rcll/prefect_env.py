"""Where Prefect keeps its things, and what it must not do, unless the operator has said otherwise."""

import os
from pathlib import Path

from rcll.errors import InputError

#: What lies under RCLL_HOME and is nobody else's business: Prefect's records, and parts of runs with memory texts.
_PRIVATE = ("prefect", "storage")


def prepare_prefect(home: Path) -> None:
    """Set Prefect's environment; call it before prefect is imported, as Prefect reads it then.

    A profile in which the user has named an API stays in force.

    Raises:
        InputError: Prefect's folder cannot be made.
    """
    profiles = Path("~/.prefect/profiles.toml").expanduser()
    defaults = {
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_LOGGING_LEVEL": "CRITICAL",  # rcll says itself what went wrong, in one line
        "PREFECT_CLI_PROMPT": "false",
    }
    if "PREFECT_HOME" not in os.environ and profiles.is_file():
        defaults["PREFECT_PROFILES_PATH"] = str(profiles)
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    folder = Path(os.environ["PREFECT_HOME"])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for private in (home / name for name in _PRIVATE):
            private.mkdir(parents=True, exist_ok=True)
            private.chmod(0o700)
    except OSError as error:
        raise InputError(
            f"folder {folder} cannot be made: {error.strerror}; expected a folder that can be written; set RCLL_HOME"
        ) from None
