"""A live Hindsight server retains and recalls all the while a large legacy bank is labelled: 0 errors."""

import time

import pytest

from tests.hindsight.conftest import hindsight
from tests.integration.walks import Walk, migrated
from tests.torture.clients import Clients, fill_legacy

__all__ = ["hindsight"]  # pytest finds the fixture by this name


@pytest.mark.timeout(3600)
def test_live_server_beside_a_backfill(hindsight, tmp_path, counts):
    """Every call of the server's clients succeeds, every legacy unit is labelled, and what is live keeps going."""
    fill_legacy(hindsight, counts.n_live_units)
    walk = Walk(hindsight.database, migrated(hindsight.database), tmp_path)
    untouched = "SELECT md5(string_agg(concat(id, text, tags, updated_at), '' ORDER BY id)) FROM memory_units"
    legacy = f"{untouched} WHERE text LIKE 'Server alder ran%'"
    before = walk.rows(legacy)
    changes = walk.plan()
    with Clients(hindsight) as clients:
        time.sleep(2)
        _, loaded = walk.apply(changes)
        time.sleep(2)
    assert clients.errors == []
    assert min(len(seconds) for seconds in clients.seconds.values()) > 3
    assert loaded.n_written >= counts.n_live_units
    assert walk.rows(legacy) == before
    assert walk.run()[1].skipped == {}
    assert walk.plan().is_empty()
