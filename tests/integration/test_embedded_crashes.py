"""The embedded server after a crash, and where it cannot work. Real processes, really killed."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

from rcll.errors import Busy, DatabaseError, InputError, Unreachable
from rcll.store import embedded
from rcll.store.embedded import EmbeddedServer
from tests.integration.servers import ask, is_down, keep_a_row, postmaster_pid

# -- dead and half-dead servers ----------------------------------------------------------------------------


def test_killed_postmaster(home):
    """Expect the next command to start the server again at the same address, with everything committed."""
    keep_a_row(home)
    with EmbeddedServer(home) as first:
        with closing(psycopg.connect(first.url())) as idle:
            idle.execute("SELECT 1")
            os.kill(postmaster_pid(home), signal.SIGKILL)
            with EmbeddedServer(home) as second:
                assert second.url() == first.url()
                assert ask(first.url(), "SELECT answer FROM kept") == 42
        assert ask(first.url(), "SELECT 1") == 1
    assert is_down(home)


def test_orphans_are_waited_for(home, monkeypatch):
    """Expect a backend that outlives its postmaster to be waited for, named, and never worked beside."""
    monkeypatch.setattr(embedded, "_ORPHAN_SECONDS", 0.5)
    with EmbeddedServer(home) as server, closing(psycopg.connect(server.url())) as conn:
        stuck = conn.info.backend_pid
        os.kill(stuck, signal.SIGSTOP)
        try:
            os.kill(postmaster_pid(home), signal.SIGKILL)
            with pytest.raises(Busy, match="earlier server still work"), EmbeddedServer(home):
                pass
        finally:
            os.kill(stuck, signal.SIGCONT)
    monkeypatch.undo()
    with EmbeddedServer(home) as server:
        assert ask(server.url(), "SELECT 1") == 1


def crash_a_backend(url: str) -> None:
    """Kill a backend, and return when the server has noticed and begun to recover."""
    with closing(psycopg.connect(url, autocommit=True)) as witness:
        with closing(psycopg.connect(url)) as killed:
            os.kill(killed.info.backend_pid, signal.SIGKILL)
        with suppress(psycopg.OperationalError):
            while witness.execute("SELECT 1"):
                pass


def test_crashed_backend(home):
    """Expect a command that comes while the server recovers from a crash to wait for that."""
    with EmbeddedServer(home) as server:
        crash_a_backend(server.url())
        with EmbeddedServer(home) as second:
            assert ask(second.url(), "SELECT 1") == 1


def test_leaving_after_a_crash(home):
    """Expect the last user not to wait for ever when it leaves while the server recovers (PostgreSQL 18.6 would)."""
    begun = time.monotonic()
    with EmbeddedServer(home) as server:
        crash_a_backend(server.url())
    assert is_down(home)
    assert time.monotonic() - begun < embedded._STOP_SECONDS


def test_server_that_does_not_end(home, monkeypatch, caplog):
    """Expect a frozen server to be told to end at once, and the command to say so and to go on."""
    for name in ("_ORPHAN_SECONDS", "_STOP_SECONDS"):
        monkeypatch.setattr(embedded, name, 1)
    monkeypatch.setattr(embedded, "_ANSWER_SECONDS", 2)
    with EmbeddedServer(home) as server:
        with psycopg.connect(server.url()) as conn:
            sockets = Path(conn.info.host)
        pid = postmaster_pid(home)
        os.kill(pid, signal.SIGSTOP)
    os.kill(pid, signal.SIGCONT)
    assert "was not stopped" in caplog.text
    monkeypatch.undo()
    with EmbeddedServer(home) as server:
        assert ask(server.url(), "SELECT 1") == 1
    sockets.rmdir()


ZOMBIE = """
import ctypes, os, signal, sys, time
from pathlib import Path
from rcll.store.embedded import EmbeddedServer
import psycopg
home = Path(sys.argv[1])
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: orphans become ours, and nobody reaps them
with EmbeddedServer(home) as server:
    pid = int((home / "postgres/data/postmaster.pid").read_text().split()[0])
    os.kill(pid, signal.SIGKILL)
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    with EmbeddedServer(home) as server, psycopg.connect(server.url()) as conn:
        print(conn.execute("SELECT 42").fetchone()[0])
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="zombies are made by a call of Linux")
def test_zombie_postmaster(home):
    """Expect a dead postmaster that nobody reaped (as in containers) not to pass for a living one."""
    done = subprocess.run(
        [sys.executable, "-c", ZOMBIE, str(home)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("42", "")


def test_reused_pid_is_never_signalled(home):
    """Expect a process that bears the number in a stale postmaster.pid to live on."""
    data = home / "postgres" / "data"
    owner = data.stat()
    sockets = Path(tempfile.mkdtemp(prefix="rcll-test-"))
    os.chown(sockets, owner.st_uid, owner.st_gid)
    account = {} if os.geteuid() else {"user": owner.st_uid}  # the server's account may signal it
    with subprocess.Popen(["sleep", "600"], **account) as other:
        lines = (str(other.pid), str(data), "1700000000", "5432", str(sockets), "", "  1  1", "ready   ")
        (data / "postmaster.pid").write_text("\n".join(lines) + "\n")
        (sockets / ".s.PGSQL.5432.lock").write_text("\n".join(lines) + "\n")
        try:
            with EmbeddedServer(home) as server:
                assert postmaster_pid(home) != other.pid
                assert ask(server.url(), "SELECT 1") == 1
            assert other.poll() is None
        finally:
            other.kill()
    assert is_down(home)


def test_folder_of_the_socket_is_not_shared(home):
    """Expect a folder that others may enter, as a pid file names it, not to be used again."""
    data = home / "postgres" / "data"
    sockets = home / "open"
    sockets.mkdir()
    sockets.chmod(0o777)
    (data / "postmaster.pid").write_text(f"1\n{data}\n1\n5432\n{sockets}\n\n 1 1\nready\n")
    with EmbeddedServer(home) as server:
        assert str(sockets) not in server.url()
    assert sockets.exists()


def test_stopped_postmaster(home, monkeypatch):
    """Expect one line instead of endless waiting when the server is frozen."""
    monkeypatch.setattr(embedded, "_ANSWER_SECONDS", 2)
    with EmbeddedServer(home):
        pid = postmaster_pid(home)
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(Unreachable, match=r"does not work: .*timeout.*let them go on"):
                EmbeddedServer(home).__enter__()
        finally:
            os.kill(pid, signal.SIGCONT)
    assert is_down(home)


def test_stopped_command(home, monkeypatch):
    """Expect the number of the process that holds the start lock, when it holds it for too long."""
    with EmbeddedServer(home):
        pass
    monkeypatch.setattr(embedded, "_START_SECONDS", 0.1)
    with (
        EmbeddedServer(home)._starting_or_stopping(),
        pytest.raises(Busy, match=f"process {os.getpid()} "),
        EmbeddedServer(home),
    ):
        pass


# -- what cannot work --------------------------------------------------------------------------------------


def test_other_major_version(home):
    """Expect both versions and a way on, and data that nobody touched."""
    version = home / "postgres" / "data" / "PG_VERSION"
    ours = version.read_text()
    version.write_text("14\n")
    with pytest.raises(DatabaseError, match=r"PostgreSQL 14; expected \d+; carry them over"), EmbeddedServer(home):
        pass
    version.write_text(ours)
    with EmbeddedServer(home) as server:
        assert ask(server.url(), "SELECT 1") == 1


def test_foreign_data_folder(bare_home):
    """Expect a folder with other things in it to be left alone."""
    data = bare_home / "postgres" / "data"
    data.mkdir(parents=True)
    (data / "thesis.txt").write_text("mine")
    with pytest.raises(DatabaseError, match="something else than data of PostgreSQL"), EmbeddedServer(bare_home):
        pass
    assert (data / "thesis.txt").read_text() == "mine"


def test_home_is_a_file(bare_home):
    """Expect one line that names the home and what to do."""
    file = bare_home / "file"
    file.touch()
    with pytest.raises(InputError, match=r"RCLL_HOME .*file cannot be used: .*set RCLL_HOME"), EmbeddedServer(file):
        pass


def test_corrupt_data(other_home):
    """Expect PostgreSQL's own reason in one line when it does not start."""
    (other_home / "postgres" / "data" / "global" / "pg_control").unlink()
    with pytest.raises(DatabaseError, match=r"does not start: .*pg_control") as failure, EmbeddedServer(other_home):
        pass
    assert "\n" not in str(failure.value)


# -- the log -----------------------------------------------------------------------------------------------


def test_log_is_bounded_and_quotes_nothing(home):
    """Expect a long log to be set aside, once, and no text of a failed statement in it."""
    log = home / "postgres" / "server.log"
    for _ in range(2):
        log.write_bytes(b"x" * (embedded._LOG_BYTES + 1))
        with (
            EmbeddedServer(home) as server,
            psycopg.connect(server.url(), autocommit=True) as conn,
            suppress(psycopg.Error),
        ):
            conn.execute("SELECT 'my secret memory'::integer")
    assert "secret" not in log.read_text()
    assert re.search("starting PostgreSQL", log.read_text())
    assert log.stat().st_size < 10_000
    assert sorted(path.name for path in log.parent.glob("server.log*")) == ["server.log", "server.log.old"]
