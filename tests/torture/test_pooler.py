"""A pool in front of the server that gives each transaction whatever connection is free: PgBouncer, as many run it."""

import os
import pwd
import shutil
import socket
import subprocess
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from rcll.store.connect import Database
from rcll.walk.undo import undo_run
from tests.integration.walks import Walk, migrated
from tests.torture.crowd import Job, assert_finished

_PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
_SECONDS = 20
#: Connections to the server, fewer than a run opens: they change hands all the time.
_POOL_SIZE = 2


@pytest.fixture
def pooled(packed, clone, tmp_path):
    """A packed database twice: by way of a transaction pool, and straight."""
    if _PROGRAM is None:
        pytest.skip("no pgbouncer on this machine; install Debian's package pgbouncer")
    straight = clone(packed)
    with _pooler(straight.url) as url:
        yield Database(url, is_embedded=False), straight


@contextmanager
def _pooler(url):
    target = conninfo_to_dict(url)
    owner = Path(target["host"]).stat().st_uid
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = Path(target["host"]) / "pooler"
    folder.mkdir()
    shutil.chown(folder, owner)
    file = folder / "pgbouncer.ini"
    file.write_text(
        f"[databases]\n* = host={target['host']} port={target.get('port', 5432)} user={target['user']}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
        f"pool_mode = transaction\ndefault_pool_size = {_POOL_SIZE}\n"
    )
    account = ["-u", pwd.getpwuid(owner).pw_name] if os.geteuid() == 0 else []  # it refuses to run as root
    command = [_PROGRAM, "-q", *account, file]
    try:
        with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
            try:
                _wait_for(port, process)
                yield f"postgresql://{target['user']}@127.0.0.1:{port}/{target['dbname']}"
            finally:
                process.terminate()
    finally:
        shutil.rmtree(folder)


def _wait_for(port, process):
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    process.kill()
    raise AssertionError(process.stderr.read().decode())


def _settings(database):
    names = ("lock_timeout", "synchronous_commit", "enable_seqscan", "search_path", "statement_timeout")
    with database.connect() as conn:
        return [conn.execute(f"SHOW {name}").fetchone() for name in names]


def test_walk_through_a_transaction_pool(pooled, tmp_path, counts):
    """Migrate, plan, apply and undo are what they are without it, and leave no setting on the pool's connections."""
    database, straight = pooled
    walk = Walk(database, migrated(database), tmp_path)
    before, settings = walk.labels(), _settings(straight)
    run_id, loaded = walk.run()
    assert loaded.n_written == counts.n_units
    assert_finished(walk)
    assert [_settings(database) for _ in range(2 * _POOL_SIZE)] == [settings] * 2 * _POOL_SIZE
    assert undo_run(walk.place, run_id).n_restored == counts.n_units
    assert walk.labels() == before


def test_second_run_through_the_pool_is_refused(pooled, tmp_path):
    """Leases hold although both runs share the pool's connections."""
    database, _ = pooled
    walk = Walk(database, migrated(database), tmp_path / "a")
    changes = walk.plan()
    codes = []

    def meanwhile():
        if not codes:
            codes.append(Job(database.url, tmp_path / "b").end()[0])
        return True

    walk.apply(changes, gate=meanwhile)
    assert codes == [4]
    assert_finished(walk)
