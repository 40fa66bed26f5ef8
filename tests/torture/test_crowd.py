"""Others at work all the while: deleted, edited, invalidated, relabelled units, stopped holders, a full disk."""

import os
import shutil
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from rcll.errors import Busy, RcllError
from rcll.store.connect import Database
from rcll.store.embedded import EmbeddedServer
from rcll.store.load import LoadLimits
from rcll.walk.undo import undo_run
from tests.integration.walks import Walk, migrated
from tests.torture.conftest import SEED
from tests.torture.crowd import Crowd, Job, assert_finished, end_state, expire_leases, fill_packed


def test_crowd_at_work_while_labels_are_written(walk, counts):
    """Nobody meets an error, people's labels stand, and later runs come to rest with every rule kept."""
    changes = walk.plan()
    with Crowd(walk, SEED) as crowd:
        rate = counts.n_units / counts.seconds
        _, loaded = walk.apply(changes, limits=LoadLimits(rows_per_second=rate))
    assert crowd.errors == []
    assert min(crowd.n_done.values()) > 10, crowd.n_done
    assert loaded.n_written + loaded.n_recorded + sum(loaded.skipped.values()) == changes.height
    assert {"edited", "gone"} <= loaded.skipped.keys()
    walk.run()
    walk.run()
    labels = walk.labels()
    people = {unit_id: room for unit_id, room in crowd.people.items() if unit_id in labels}
    assert {unit_id: labels[unit_id][0] for unit_id in people} == people
    others = {label for unit_id, label in labels.items() if unit_id not in people}
    assert others == {("auth", "event", "2")}
    assert walk.plan().is_empty()


def test_crowd_at_work_while_a_run_is_undone(walk, counts):
    """What people set meanwhile stays, the rest is as before, and nobody meets an error."""
    before = walk.labels()
    run_id, _ = walk.run()
    with Crowd(walk, SEED + 1) as crowd:
        time.sleep(min(counts.seconds, 5) / 5)
        undone = undo_run(walk.place, run_id)
        time.sleep(0.5)
    assert crowd.errors == []
    assert undone.n_restored > 0
    labels = walk.labels()
    kept = {unit_id for unit_id, label in labels.items() if label != before[unit_id]}
    touched = set(crowd.people) | set(crowd._shares[crowd._edit]) | set(crowd._shares[crowd._invalidate])
    assert kept <= touched
    assert all(labels[unit_id][0] == room for unit_id, room in crowd.people.items() if unit_id in labels)


def test_two_runs_at_once(packed, clone, tmp_path, counts):
    """While one run works on the banks, a second program is told and exits 4; the first does it all."""
    database = clone(packed)
    walk = Walk(database, migrated(database), tmp_path / "a")
    changes = walk.plan()
    go_on = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(walk.apply, changes, gate=go_on.wait)
        try:
            while not walk.rows("SELECT FROM rcll_leases WHERE expires_at > clock_timestamp()"):
                time.sleep(0.05)
            code, err = Job(database.url, tmp_path / "b").end()
        finally:
            go_on.set()
        assert code == 4
        assert err.startswith("error: bank 'alice' is in use by")
        assert first.result()[1].n_written == counts.n_units
    assert_finished(walk)


def test_stopped_holder_that_wakes_late_writes_nothing(packed, clone, tmp_path, counts, rnd):
    """SIGSTOP, another run takes over and finishes, SIGCONT: the first finds its lease gone and ends."""
    database = clone(packed)
    migrated(database)
    stopped = Job(database.url, tmp_path / "stopped", str(counts.n_units / 4))
    stopped.wait_for("begun")
    stopped.wait_for("loading")
    time.sleep(rnd.uniform(0.5, 2))
    stopped.process.send_signal(signal.SIGSTOP)
    try:
        walk = Walk(database, migrated(database), tmp_path / "second")
        with pytest.raises(Busy, match="is in use by"):
            walk.run()
        expire_leases(walk)
        start = time.monotonic()
        walk.run()
        assert time.monotonic() - start < 30
        wanted = end_state(walk)
        written = walk.rows("SELECT run_id, count(*), max(changed_at) FROM rcll_changes GROUP BY 1 ORDER BY 1")
    finally:
        stopped.process.send_signal(signal.SIGCONT)
    code, err = stopped.end()
    assert code in (1, 4), err
    assert "is no longer ours" in err or "was cut off" in err
    assert end_state(walk) == wanted
    assert walk.rows("SELECT run_id, count(*), max(changed_at) FROM rcll_changes GROUP BY 1 ORDER BY 1") == written
    assert_finished(walk)


def test_locks_and_timeouts_of_others(walk, counts):
    """Tables locked for a moment again and again, and a short statement_timeout: slower, and all is written."""
    name = walk.rows("SELECT current_database()")[0][0]
    changes = walk.plan()
    walk.do(f"ALTER DATABASE \"{name}\" SET statement_timeout = '150ms'")
    stop = threading.Event()

    def lock_now_and_then():
        with walk.database.connect(options="-c statement_timeout=0") as conn:
            while not stop.wait(0.3):
                with conn.transaction():
                    conn.execute("LOCK TABLE memory_units, rcll_labels IN ACCESS EXCLUSIVE MODE")
                    time.sleep(0.25)

    other = threading.Thread(target=lock_now_and_then)
    other.start()
    try:
        _, loaded = walk.apply(changes)
    finally:
        stop.set()
        other.join()
    assert (loaded.n_written, loaded.skipped) == (counts.n_units, {})
    walk.do(f'ALTER DATABASE "{name}" RESET statement_timeout')
    assert_finished(walk)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")


@contextmanager
def _small_disk(folder: Path, megabytes: int):
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0711", "tmpfs", folder]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def _fill_disk(folder: Path, leave: int) -> Path:
    """Leave so many bytes free."""
    ballast = folder / "ballast"
    with ballast.open("wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, shutil.disk_usage(folder).free - leave)
    return ballast


@needs_root
def test_plan_on_a_full_disk(packed, clone, home):
    """No room for the parts of a plan: one line that says so, nothing written; with room again it goes through."""
    database = clone(packed)
    with _small_disk(home / "storage", 8) as disk:
        walk = Walk(database, migrated(database), disk)
        ballast = _fill_disk(disk, 20_000)
        with pytest.raises(RcllError, match="No space left"):
            walk.run()
        assert walk.rows("SELECT count(*) FROM rcll_changes") == [(0,)]
        ballast.unlink()
        walk.run()
        assert_finished(walk)


@needs_root
def test_embedded_server_on_a_full_disk(home, tmp_path, rnd):
    """The disk under the embedded server fills up during a load: one line; with room again the rerun finishes."""
    with _small_disk(home / "small", 400) as disk:
        with EmbeddedServer(disk) as server:
            database = Database(server.url(), is_embedded=True)
            fill_packed(database, 2_000)
            walk = Walk(database, migrated(database), tmp_path)
            changes = walk.plan()
            walk.do("CHECKPOINT")
            ballast = _fill_disk(disk, rnd.randint(300_000, 1_500_000))
            with pytest.raises(RcllError, match=r"run again|run the command again") as caught:
                walk.apply(changes)
            assert "\n" not in str(caught.value)
            ballast.unlink()
        with EmbeddedServer(disk) as server:
            database = Database(server.url(), is_embedded=True)
            walk = Walk(database, migrated(database), tmp_path / "rerun")
            expire_leases(walk)
            walk.run()
            assert set(walk.labels().values()) == {("auth", "event", "2")}
            assert_finished(walk)
