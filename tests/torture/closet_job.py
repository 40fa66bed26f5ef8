"""Condenses alice's room and archives the sources: ``URL FOLDER UNITS_PER_SECOND``."""

import sys
from pathlib import Path

from rcll.store.connect import Database
from tests.integration.closet_walks import condense
from tests.integration.walks import Walk, migrated
from tests.torture.told import told


def archive(url: str, folder: str, rate: str) -> None:
    """Make the closets and move their sources."""
    database = Database(url, is_embedded=False)
    condense(Walk(database, migrated(database), Path(folder)), archive_sources=True, rate=float(rate))


if __name__ == "__main__":
    sys.exit(told(lambda: archive(*sys.argv[1:])))
