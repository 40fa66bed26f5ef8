"""Rooms that were linked before are not linked again, and anything that matters makes them another room."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from rcll.frames import LINK_UNITS, TUNNELS
from rcll.settings import Settings
from rcll.stages.tunnels import TunnelParams
from rcll.walk.linked import fingerprint, linked_before

UNITS = pl.DataFrame({"unit_id": ["1", "2"], "bank_id": ["a", "b"], "text": ["x", None]}, schema=LINK_UNITS)
VECTORS = np.array([[1, 0], [0, np.nan]], dtype=np.float32)
ALLOWED = ~np.eye(2, dtype=bool)
FOUND = pl.DataFrame([("1", "2", "a", "b", "same_concept", 0.5, "{}")], schema=TUNNELS, orient="row")


@pytest.fixture
def settings(tmp_path):
    """A home of the test's own."""
    return Settings(home=tmp_path)


def never():
    """Must not be called."""
    pytest.fail("the room was linked again")


def test_every_input_matters():
    """Ids, banks, texts, vectors, permissions and parameters each give another fingerprint; the same gives the same."""
    other_vectors = VECTORS.copy()
    other_vectors[0, 1] = 1e-9
    marks = [
        fingerprint(UNITS, VECTORS, ALLOWED, TunnelParams()),
        *(
            fingerprint(UNITS.with_columns(pl.Series(n, ["3", "4"])), VECTORS, ALLOWED, TunnelParams())
            for n in UNITS.columns
        ),
        fingerprint(UNITS.with_columns(text=pl.Series(["x2:", ""])), VECTORS, ALLOWED, TunnelParams()),
        fingerprint(UNITS, other_vectors, ALLOWED, TunnelParams()),
        fingerprint(UNITS, VECTORS, ~ALLOWED, TunnelParams()),
        fingerprint(UNITS, VECTORS, ALLOWED, replace(TunnelParams(), per_unit=1)),
    ]
    assert len(set(marks)) == len(marks)
    assert fingerprint(UNITS.clone(), VECTORS.copy(), ALLOWED, TunnelParams()) == marks[0]


def test_unchanged_room_is_not_linked_again(settings, tmp_path):
    """Kept tunnels come back; a changed room replaces what was kept; rooms and tenants keep apart."""
    assert linked_before(settings, "public", "auth", "m1", lambda: FOUND).equals(FOUND)
    assert linked_before(settings, "public", "auth", "m1", never).equals(FOUND)
    empty = FOUND.clear()
    assert linked_before(settings, "public", "api", "m1", lambda: empty).is_empty()
    assert linked_before(settings, "other", "auth", "m1", lambda: empty).is_empty()
    assert linked_before(settings, "public", "auth", "m2", lambda: empty).is_empty()
    assert linked_before(settings, "public", "auth", "m1", lambda: FOUND).equals(FOUND)
    assert len(list(tmp_path.glob("storage/links/*/*.parquet"))) == 3


@pytest.mark.parametrize("damage", [b"", b"PAR1 and nothing", None])
def test_damaged_file_costs_time_only(settings, tmp_path, damage):
    """Empty, broken or of other columns: the room is linked again."""
    linked_before(settings, "public", "auth", "m1", lambda: FOUND)
    (path,) = tmp_path.glob("storage/links/*/m1.parquet")
    path.write_bytes(damage) if damage is not None else FOUND.drop("score").write_parquet(path)
    assert linked_before(settings, "public", "auth", "m1", lambda: FOUND).equals(FOUND)
    assert linked_before(settings, "public", "auth", "m1", never).equals(FOUND)
