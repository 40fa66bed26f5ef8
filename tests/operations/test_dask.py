"""Partitions on the workers of a real Dask scheduler, one of which dies, or cannot reach what it must."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.operations.conftest import N_UNITS, Site, free_port, wait_until

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def scheduler(place) -> Iterator[str]:
    """A scheduler without workers; settings point at it."""
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    del place.environment["PREFECT_API_URL"]
    place.environment |= {"RCLL_TASK_RUNNER": "dask", "RCLL_DASK_ADDRESS": address}
    words = ("--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
    with place.running("dask", "scheduler", *words):
        wait_until(lambda: _answers(port))
        yield address


def _answers(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def _worker(place: Site, address: str, name: str) -> Iterator:
    options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--name", name, "--death-timeout", "120")
    with place.running("dask", "worker", address, *options, "--local-directory", str(place.folder)) as process:
        yield process


def _ready(place: Site, n_workers: int) -> None:
    from distributed import Client

    with Client(place.environment["RCLL_DASK_ADDRESS"], timeout=120) as client:
        client.wait_for_workers(n_workers, timeout=120)


def test_worker_killed_in_the_middle_costs_nothing(place, scheduler):
    """Ranges that a dead worker had under way are computed by the other; every unit is filed once."""
    with _worker(place, scheduler, "one") as first, _worker(place, scheduler, "two"):
        _ready(place, 2)
        with place.running("rcll", "backfill", "--rate", "40", "--pages", "3") as flow:
            wait_until(lambda: _table_is_there(place) and place.rows("SELECT FROM rcll_changes"))
            first.kill()
            first.wait()
            assert place.rows("SELECT count(*) FROM rcll_labels")[0][0] < N_UNITS
            assert flow.wait(280) == 0, (place.folder / "backfill.log").read_text(encoding="utf-8")
    assert place.rows("SELECT count(*) FROM rcll_labels") == [(N_UNITS,)]
    assert place.rows("SELECT unit_id FROM rcll_changes GROUP BY 1 HAVING count(*) > 1") == []
    assert list((place.folder / "home" / "storage").glob("**/*.parquet")) == []


def _table_is_there(place: Site) -> bool:
    return bool(place.rows("SELECT FROM pg_class WHERE relname = 'rcll_changes'"))


def test_storage_that_a_worker_cannot_reach_is_said_first(place, scheduler):
    """Nothing is written: no table, no run; the message names worker and setting. So for an address without workers."""
    lonely = place.run("rcll", "reorganize", check=False)
    assert lonely.returncode == 2
    assert "has no workers" in lonely.stderr
    ours = place.environment
    place.environment = ours | {"RCLL_STORAGE": str(place.folder / "elsewhere")}
    with _worker(place, scheduler, "far"):
        place.environment = ours
        _ready(place, 1)
        refused = place.run("rcll", "reorganize", "--json", check=False)
    assert refused.returncode == 2
    assert "RCLL_STORAGE is a place without the flow's files" in refused.stderr
    assert json.loads(refused.stdout or "[]") == []
    assert place.rows("SELECT FROM pg_class WHERE relname = 'rcll_runs'") == []
