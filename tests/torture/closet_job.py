"""Condenses alice's room and archives the sources: ``URL FOLDER UNITS_PER_SECOND``.

Says ``begun`` before it touches anything and ``done`` at the end; a known error becomes one line and its exit code.
"""

import sys
from pathlib import Path

from rcll.errors import RcllError
from rcll.store.connect import Database
from tests.integration.closet_walks import condense
from tests.integration.walks import Walk, migrated


def main(url: str, folder: str, rate: str) -> int:
    """Make the closets and move their sources."""
    _say("begun")
    database = Database(url, is_embedded=False)
    try:
        condense(Walk(database, migrated(database), Path(folder)), archive_sources=True, rate=float(rate))
    except RcllError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    _say("done")
    return 0


def _say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
