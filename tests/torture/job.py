"""Labels a bank as rcll does, without the seconds that Prefect takes to start: ``URL FOLDER [ROWS_PER_SECOND]``.

Says ``begun`` before it touches anything, ``loading`` before it writes labels, ``done`` at the end.
"""

import sys
from pathlib import Path

from rcll.store.connect import Database
from rcll.store.load import LoadLimits
from tests.integration.walks import Walk, migrated
from tests.torture.told import say, told


def label(url: str, folder: str, rate: str = "") -> None:
    """Migrate, plan and apply."""
    database = Database(url, is_embedded=False)
    walk = Walk(database, migrated(database), Path(folder))
    changes = walk.plan()
    say("loading")
    walk.apply(changes, limits=LoadLimits(rows_per_second=float(rate) if rate else None))


if __name__ == "__main__":
    sys.exit(told(lambda: label(*sys.argv[1:])))
