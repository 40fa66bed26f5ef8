"""kill -9 at random moments, of rcll and of the server: a rerun finishes, and the end is that of an undisturbed run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest

from rcll.errors import RcllError
from rcll.store.connect import Database
from rcll.store.embedded import EmbeddedServer
from rcll.store.lease import hold_banks
from rcll.store.load import apply_changes
from tests.integration.servers import postmaster_pid
from tests.integration.walks import BANKS, Walk, migrated
from tests.torture.crowd import Job, assert_finished, end_state, expire_leases, fill_packed

LOAD_SECONDS = 2.0


def test_rcll_killed_at_random_moments(packed, clone, counts, rnd, tmp_path):
    """Wherever it dies (migration, reading, writing), the next run finishes: same end, nothing twice."""
    database = clone(packed)
    undisturbed = Walk(database, migrated(database), tmp_path / "undisturbed")
    undisturbed.run()
    wanted = end_state(undisturbed)
    written = []
    for number in range(counts.kills):
        database = clone(packed)
        job = Job(database.url, tmp_path / f"killed-{number}", str(counts.n_units / LOAD_SECONDS))
        job.wait_for("begun")
        if number % 3:
            job.wait_for("loading")
        time.sleep(rnd.uniform(0, LOAD_SECONDS))
        job.end(signal.SIGKILL)
        walk = Walk(database, migrated(database), tmp_path / f"rerun-{number}")
        expire_leases(walk)
        written.append(walk.rows("SELECT count(*) FROM rcll_changes")[0][0])
        walk.run()
        assert end_state(walk) == wanted, f"killed after {written[-1]} labels"
        assert_finished(walk)
    assert max(written) > 0


@pytest.mark.full
def test_program_killed_at_random_moments(packed, clone, counts, rnd, tmp_path):
    """The same for rcll reorganize with closets and tunnels; what a killed run left is closed as failed."""
    database = clone(packed)
    environment = os.environ | {
        "RCLL_DATABASE_URL": database.url,
        "RCLL_HOME": str(tmp_path / "home"),
        "RCLL_CLOSET_THRESHOLD": "300",
    }
    command = [Path(sys.executable).parent / "rcll", "reorganize", "--json"]
    for _ in range(counts.program_kills):
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            with pytest.raises(subprocess.TimeoutExpired):
                process.communicate(timeout=rnd.uniform(4, 14))
            process.kill()
        walk = Walk(database, migrated(database), tmp_path)
        expire_leases(walk)
    walk.do("UPDATE rcll_runs SET started_at = started_at - interval '2 minutes'")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert '"n_written": 0' in again.stdout
    assert walk.rows("SELECT count(*) FROM rcll_runs WHERE status = 'running'") == [(0,)]
    assert walk.rows("SELECT unit_id FROM rcll_changes GROUP BY 1 HAVING count(*) > 1") == []
    assert walk.rows("SELECT count(*) FROM memory_units WHERE room = 'general'")[0][0] < counts.n_units / 2


def test_server_killed_at_random_moments(home, counts, rnd, tmp_path):
    """The server dies at random moments of the load; what was committed may be lost at its end, never half."""
    with EmbeddedServer(home) as server:
        fill_packed(Database(server.url(), is_embedded=True), counts.n_units)
        for number in range(counts.server_kills):
            url = server.url()
            job = Job(url, tmp_path / f"job-{number}", str(counts.n_units / LOAD_SECONDS))
            job.wait_for("begun")
            job.wait_for("loading")
            time.sleep(rnd.uniform(0, LOAD_SECONDS))
            os.kill(postmaster_pid(home), signal.SIGKILL)
            code, err = job.end()
            assert code in (0, 1), err
            assert len(err.strip().splitlines()) <= 1, err
            with EmbeddedServer(home) as again:
                walk = Walk(Database(again.url(), is_embedded=True), None, tmp_path / f"rerun-{number}")
                walk.tenant = migrated(walk.database)
                expire_leases(walk)
                walk.run()
                assert_finished(walk)
                assert set(walk.labels().values()) == {("auth", "event", "2")}
                walk.do("TRUNCATE rcll_labels, rcll_changes, rcll_runs")
                walk.do("UPDATE memory_units SET room = 'general', hall = 'fact'")
                walk.do("VACUUM (FULL) memory_units")


def test_run_says_what_happened_when_its_server_is_gone(home, tmp_path):
    """A known error in one line, not a traceback."""
    with EmbeddedServer(home) as server:
        database = Database(server.url(), is_embedded=True)
        fill_packed(database, 300)
        walk = Walk(database, migrated(database), tmp_path)
        changes = walk.plan()
        with hold_banks(database, walk.tenant, BANKS, uuid4()) as lease:
            os.kill(postmaster_pid(home), signal.SIGKILL)
            time.sleep(0.5)
            with pytest.raises(RcllError, match=r"run again|run the command again"):
                apply_changes(database, walk.tenant, changes, lease, taxonomy_hash="T")
