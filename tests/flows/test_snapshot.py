"""The snapshot as Prefect runs it."""

import pytest

from rcll.analyst.layout import list_snapshots
from tests.integration.places import N_UNITS, fill


@pytest.fixture
def bank(make_template, clone, monkeypatch, tmp_path):
    """A Hindsight-like database, not migrated, and settings that point at it."""
    database = clone(make_template("snapshot_flow", lambda database: fill(database, "hindsight")))
    monkeypatch.setenv("RCLL_DATABASE_URL", database.url)
    monkeypatch.setenv("RCLL_HOME", str(tmp_path))
    return database


def test_flow_writes_and_prunes(bank, tmp_path):
    """Two runs that keep one leave the newest whole snapshot in the default folder."""
    from flows.snapshot import snapshot

    (first,) = snapshot(keep=1)
    (second,) = snapshot(keep=1, texts=False)
    (left,) = list_snapshots(tmp_path / "storage" / "snapshots")
    assert str(left.path) == second["path"] != first["path"]
    assert second["tables"]["units"]["n_rows"] == N_UNITS
    assert not left.manifest.has_texts
    assert second["longest_hold"] < 60
