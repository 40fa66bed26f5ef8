"""kill -9 of worker, Prefect's server and database at random moments: a rerun finishes, with the same end.

A sample by default, the full count with RCLL_TORTURE=full; RCLL_SEED chooses the moments.
"""

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rcll.errors import RcllError
from rcll.store.catalog import read_tenants
from rcll.store.checks import run_checks
from rcll.store.connect import Database
from rcll.store.embedded import EmbeddedServer
from tests.integration.conftest import bare_home
from tests.integration.places import N_UNITS, fill_matters
from tests.integration.servers import postmaster_pid
from tests.operations.conftest import Site, make_site, processes_of, wait_until
from tests.torture.conftest import IS_FULL, SEED

__all__ = ["bare_home"]  # pytest finds the fixture by this name
pytestmark = pytest.mark.timeout(3600)

VICTIMS = ("database", "server", "worker")
#: Points that are tried: the worker's death is in test_site already, so the sample leaves it out.
N_KILLS = 10 if IS_FULL else 2
#: A run of these units takes about so long from its first state Running, of which half is spent with writing.
RUN_SECONDS, RATE = 8.0, 75
SETTINGS = {
    "RCLL_CLOSET_THRESHOLD": "100",
    "RCLL_TUNNEL_PAIRS": '[["alice", "bob"]]',
    "RCLL_RATE": str(RATE),
    # as docs/operations.md asks for, so that slots survive the server
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
}


class Scene:
    """Database, Prefect's server and worker, each of which can die and come again."""

    def __init__(self, home: Path, folder: Path, stack: ExitStack) -> None:
        self._home, self._stack = home, stack
        self._database = stack.enter_context(EmbeddedServer(home))
        self._admin("CREATE DATABASE untouched")
        fill_matters(Database(self._database.url("untouched"), is_embedded=True))
        self.site = make_site(folder, Database(self._database.url(), is_embedded=True), **SETTINGS)
        self.server = stack.enter_context(self.site.server())
        self.site.run("prefect", "work-pool", "create", "--type", "process", "rcll")
        self.site.run("prefect", "deploy", "--all")
        self.site.run("prefect", "deployment", "schedule", "pause", "--all")
        self.worker = None

    def _admin(self, statement: str) -> None:
        with psycopg.connect(self._database.url("postgres"), autocommit=True) as conn:
            conn.execute(statement)

    def take(self, name: str) -> None:
        """Go on with a fresh copy of the database, and a worker that works on it."""
        self._admin(f"CREATE DATABASE {name} TEMPLATE untouched")
        self.site.database = Database(self._database.url(name), is_embedded=True)
        self.site.environment["RCLL_DATABASE_URL"] = self.site.database.url
        self.worker = self._stack.enter_context(self.site.worker())

    def begin(self) -> str:
        """Order a run and wait until it is Running; returns its id."""
        self.site.run("prefect", "deployment", "run", "reorganize/reorganize")
        (run,) = wait_until(
            lambda: [run for run in self.site.flow_runs("reorganize") if run["state_type"] == "RUNNING"]
        )
        return run["id"]

    def kill(self, victim: str, flow_run: str) -> None:
        """Kill -9, and start again what a service manager would."""
        if victim == "database":
            os.kill(postmaster_pid(self._home), signal.SIGKILL)
            wait_until(lambda: not _answers(self.site.database))
            self._database = self._stack.enter_context(EmbeddedServer(self._home))
        elif victim == "server":
            os.killpg(self.server.pid, signal.SIGKILL)
            self.server = self._stack.enter_context(self.site.server())
        else:
            os.killpg(self.worker.pid, signal.SIGKILL)
            for pid in processes_of(flow_run):
                os.kill(pid, signal.SIGKILL)
            self.worker = self._stack.enter_context(self.site.worker())
        wait_until(lambda: not processes_of(flow_run))

    def leave(self) -> None:
        """End the worker of this database."""
        self.worker.send_signal(signal.SIGTERM)
        self.worker.wait(60)


def _answers(database: Database) -> bool:
    try:
        with database.connect():
            return True
    except RcllError:
        return False


@pytest.fixture
def scene(bare_home, tmp_path) -> Iterator[Scene]:
    """Everything up but a worker."""
    with ExitStack() as stack:
        yield Scene(bare_home, tmp_path, stack)


def end_state(site: Site) -> dict[str, Any]:
    """Labels, ledger, closets and tunnels, less ids and moments that no rerun can bring to the same."""
    labels = "SELECT id, room, hall, layer FROM memory_units ORDER BY 1"
    ledger = "SELECT unit_id, bank_id, room, hall, layer, room_source, hall_source, room_rule, hall_rule, text_hash"
    closets = "SELECT bank_id, room, hall, title, summary, source_hash, status FROM closets ORDER BY source_hash"
    tunnels = "SELECT source_unit_id, target_unit_id, relationship, method FROM tunnels ORDER BY 1, 2"
    state = {"labels": site.rows(labels), "ledger": site.rows(f"{ledger} FROM rcll_labels ORDER BY 1")}
    return state | {"closets": site.rows(closets), "tunnels": site.rows(tunnels)}


def test_killed_at_random_points_a_rerun_finishes_with_the_same_end(scene):
    """Whoever dies whenever: the next run does the rest, nothing twice, nothing half, no run stays open."""
    site, rnd = scene.site, random.Random(f"{SEED} kills")
    scene.take("undisturbed")
    site.run("rcll", "reorganize")
    wanted = end_state(site)
    assert all(wanted.values())
    scene.leave()
    for number in range(N_KILLS):
        victim, moment = VICTIMS[number % len(VICTIMS)], rnd.uniform(0, RUN_SECONDS)
        scene.take(f"kill_{number}")
        flow_run = scene.begin()
        time.sleep(moment)
        scene.kill(victim, flow_run)
        n_filed = _n_filed(site)
        _expire_leases(site)
        done = site.run("rcll", "reorganize", "--json")
        assert end_state(site) == wanted, (victim, moment, n_filed)
        _assert_sound(site, json.loads(done.stdout))
        scene.leave()


def _n_filed(site: Site) -> int:
    return site.rows("SELECT count(*) FROM rcll_labels")[0][0] if _is_migrated(site) else 0


def _is_migrated(site: Site) -> bool:
    return bool(site.rows("SELECT FROM pg_class WHERE relname = 'rcll_leases'"))


def _expire_leases(site: Site) -> None:
    """Stand for the minute after which a dead holder's lease is free."""
    if _is_migrated(site):
        with site.database.connect() as conn:
            conn.execute("UPDATE rcll_leases SET expires_at = clock_timestamp()")
            conn.execute("UPDATE rcll_runs SET started_at = started_at - interval '2 minutes'")


def _assert_sound(site: Site, summaries: list[dict[str, Any]]) -> None:
    """Every check is empty, every unit was logged once, and no run is open."""
    assert [each["status"] for each in summaries] == ["done"]
    with site.database.connect() as conn:
        (tenant,) = read_tenants(conn)
        assert run_checks(conn, tenant) == {}
    assert site.rows("SELECT unit_id FROM rcll_changes GROUP BY 1 HAVING count(*) > 1") == []
    assert site.rows("SELECT run_id FROM rcll_runs WHERE status = 'running'") == []
    assert site.rows("SELECT count(*) FROM rcll_labels") == [(N_UNITS,)]
