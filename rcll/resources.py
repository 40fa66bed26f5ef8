"""Finds the files shipped beside the code, in a checkout and in an installed wheel alike."""

from pathlib import Path

from rcll.errors import RcllError


def sql_dir() -> Path:
    """Folder that holds migrations/, queries/, checks/ and analysis/.

    A wheel carries it as ``rcll/sql``; in a checkout it lies beside the package.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "sql", package.parent / "sql"):
        if (folder / "migrations").is_dir():
            return folder
    raise RcllError(f"no sql folder beside {package}; expected rcll/sql or sql; install rcll again")
