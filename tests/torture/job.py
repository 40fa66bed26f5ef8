"""Labels a bank as rcll does, without the seconds that Prefect takes to start: ``URL FOLDER [ROWS_PER_SECOND]``.

Says ``begun`` before it touches anything, ``loading`` before it writes labels, ``done`` at the end; a known error
becomes one line and its exit code.
"""

import sys
from pathlib import Path

from rcll.errors import RcllError
from rcll.store.connect import Database
from rcll.store.load import LoadLimits
from tests.integration.walks import Walk, migrated


def main(url: str, folder: str, rate: str = "") -> int:
    """Migrate, plan and apply."""
    _say("begun")
    database = Database(url, is_embedded=False)
    try:
        walk = Walk(database, migrated(database), Path(folder))
        changes = walk.plan()
        _say("loading")
        walk.apply(changes, limits=LoadLimits(rows_per_second=float(rate) if rate else None))
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
