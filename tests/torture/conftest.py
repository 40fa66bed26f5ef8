"""Counts of the torture tests, and the databases that they work on.

RCLL_TORTURE=full runs every count; else a sample. RCLL_SEED chooses the moments; it is printed with a failure.
"""

import os
import random
from dataclasses import dataclass

import pytest

from tests.integration.conftest import _temporary_home, admin, bare_home, clone, make_template, server
from tests.integration.walks import Walk, migrated
from tests.torture.crowd import fill_packed

__all__ = ["admin", "bare_home", "clone", "make_template", "server"]  # pytest finds the fixtures by these names

IS_FULL = os.environ.get("RCLL_TORTURE") == "full"
SEED = int(os.environ.get("RCLL_SEED", "20260301"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out of the sample what takes minutes by itself."""
    slow = [item for item in items if item.get_closest_marker("full") and not IS_FULL]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]


@dataclass(frozen=True)
class Counts:
    """How often things are killed, how many units there are, how long a crowd works."""

    kills: int
    program_kills: int
    server_kills: int
    n_units: int
    n_live_units: int
    seconds: float


@pytest.fixture(scope="session")
def counts() -> Counts:
    """The full counts, or a sample."""
    if IS_FULL:
        return Counts(kills=30, program_kills=5, server_kills=5, n_units=6_000, n_live_units=50_000, seconds=60)
    return Counts(kills=3, program_kills=0, server_kills=1, n_units=2_000, n_live_units=1_500, seconds=5)


@pytest.fixture
def rnd(request) -> random.Random:
    """Chance that comes again: from the seed and the name of the test."""
    return random.Random(f"{SEED} {request.node.name}")


@pytest.fixture
def packed(make_template, counts) -> str:
    """A template: two banks on packed pages with vector indexes, not migrated."""
    return make_template("packed", lambda database: fill_packed(database, counts.n_units))


@pytest.fixture
def walk(packed, clone, tmp_path) -> Walk:
    """A migrated copy of it."""
    database = clone(packed)
    return Walk(database, migrated(database), tmp_path)


@pytest.fixture
def home():
    """An empty RCLL_HOME that the embedded server can use."""
    with _temporary_home() as path:
        yield path
