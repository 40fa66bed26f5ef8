"""The embedded server: who starts and stops it and how commands share it."""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

import psycopg
import pytest

from rcll.errors import RcllError
from rcll.store.embedded import EmbeddedServer
from tests.integration.servers import ask, command, is_down, keep_a_row, postmaster_pid, wait_until

# -- one user ----------------------------------------------------------------------------------------------


def test_first_start_makes_a_database(bare_home):
    """Expect database rcll with both extensions, fsync and autovacuum on, no network, in a folder with an odd name."""
    home = bare_home / 'a "b" $c `d` \\ 東'
    with EmbeddedServer(home) as server, psycopg.connect(server.url()) as conn:
        extensions = conn.execute("SELECT extname FROM pg_extension ORDER BY 1").fetchall()
        shown = {
            name: conn.execute("SELECT current_setting(%s)", [name]).fetchone()[0]
            for name in ("fsync", "autovacuum", "listen_addresses", "shared_buffers", "max_connections")
        }
        assert ask(server.url("postgres"), "SELECT current_database()") == "postgres"
        folder = Path(conn.info.host)
        assert folder.stat().st_mode & 0o777 == 0o700
    assert extensions == [("pg_trgm",), ("plpgsql",), ("vector",)]
    assert shown == {
        "fsync": "on",
        "autovacuum": "on",
        "listen_addresses": "",
        "shared_buffers": "128MB",
        "max_connections": "100",
    }
    assert not folder.exists()
    assert is_down(home)


def test_letters_of_all_scripts_have_cases(home):
    """Expect lower() and trigrams to know more than ASCII, as recall in any language needs it."""
    with EmbeddedServer(home) as server:
        assert ask(server.url(), "SELECT lower('ÄÖ ПРИВЕТ')") == "äö привет"
        assert ask(server.url(), "SELECT 'Привет' ~* 'привет'") is True


def test_data_survive(home):
    """Expect the next command to find what the last one wrote."""
    keep_a_row(home)
    with EmbeddedServer(home) as server:
        assert ask(server.url(), "SELECT answer FROM kept") == 42


@pytest.mark.parametrize("name", ["with space", "qu'ot\"es $HOME `x` \\ ü 東", "long/" * 40])
def test_odd_paths(home, name):
    """Expect any folder to do, also one that is longer than a socket's address."""
    odd = home / name
    odd.mkdir(parents=True)
    (home / "postgres").rename(odd / "postgres")
    try:
        with EmbeddedServer(odd) as server:
            assert ask(server.url(), "SELECT 1") == 1
        assert is_down(odd)
    finally:
        (odd / "postgres").rename(home / "postgres")


def test_long_temporary_folder(home, monkeypatch):
    """Expect a TMPDIR that is too long, or that a list of folders would split, to be passed over."""
    for parent in ("long" * 30, "a, b"):
        odd = home / parent
        odd.mkdir()
        odd.chmod(0o777)
        monkeypatch.setattr(tempfile, "tempdir", str(odd))
        with EmbeddedServer(home) as server:
            assert str(odd) not in server.url()


def test_url_needs_a_running_server(home):
    """Expect an error instead of an address that nobody serves."""
    server = EmbeddedServer(home)
    with pytest.raises(RcllError, match="not running"):
        server.url()
    with server:
        pass
    with pytest.raises(RcllError, match="not running"):
        server.url()


def test_database_names_are_quoted(home):
    """Expect a database with odd letters in its name to be reached."""
    with EmbeddedServer(home) as server:
        with psycopg.connect(server.url(), autocommit=True) as conn:
            conn.execute('CREATE DATABASE "a b/ü?&"')
        assert ask(server.url("a b/ü?&"), "SELECT current_database()") == "a b/ü?&"


# -- several users -----------------------------------------------------------------------------------------


def test_users_inside_one_process_are_counted(home):
    """Expect the server to stay while any of two nested or threaded users is in."""
    with EmbeddedServer(home) as outer:
        with EmbeddedServer(home) as inner:
            assert inner.url() == outer.url()
        assert ask(outer.url(), "SELECT 1") == 1
        with command(home) as other:
            assert other.url() == outer.url()
            assert other.end() == 0
        assert ask(outer.url(), "SELECT 1") == 1

        def use() -> None:
            with EmbeddedServer(home) as third:
                assert ask(third.url(), "SELECT 1") == 1

        threads = [threading.Thread(target=use) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ask(outer.url(), "SELECT 1") == 1
    assert is_down(home)


def test_joining_starts_no_process(home, monkeypatch):
    """Expect a second user to join without a fork, which could block for ever beside threads that compute."""
    with EmbeddedServer(home) as outer:
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "Popen", None)
            with EmbeddedServer(home) as inner:
                assert inner.url() == outer.url()
        assert ask(outer.url(), "SELECT 1") == 1


def test_commands_at_the_same_moment(bare_home):
    """Expect three commands on an empty home to share one server, which goes with the last of them."""
    with command(bare_home) as one, command(bare_home) as two, command(bare_home) as three:
        urls = {one.url(), two.url(), three.url()}
        assert len(urls) == 1
        url = urls.pop()
        assert one.end() == 0
        assert two.end(signal.SIGKILL) == -signal.SIGKILL
        assert ask(url, "SELECT count(*) FROM pg_extension") == 3
        assert three.end() == 0
    assert is_down(bare_home)


def test_homes_do_not_meet(home, other_home):
    """Expect two homes to have two servers."""
    keep_a_row(home)
    with EmbeddedServer(other_home) as two, EmbeddedServer(home) as one:
        assert one.url() != two.url()
        with psycopg.connect(two.url()) as conn:
            conn.execute("DROP TABLE IF EXISTS kept")
        assert ask(one.url(), "SELECT answer FROM kept") == 42
        assert ask(two.url(), "SELECT to_regclass('kept') IS NULL") is True


def test_copied_pid_file_does_not_lead_to_another_home(home, other_home):
    """Expect a home that was copied while its server ran not to join, stop or cut off that server."""
    with EmbeddedServer(home) as one:
        for name in ("postmaster.pid", "postmaster.opts"):
            shutil.copy(home / "postgres" / "data" / name, other_home / "postgres" / "data" / name)
        with EmbeddedServer(other_home) as two:
            assert one.url() != two.url()
        assert ask(one.url(), "SELECT 1") == 1


def test_killed_command_is_not_counted(home):
    """Expect the next command to join the server that a killed one left, and to stop it as its last user."""
    with command(home) as killed:
        url = killed.url()
        killed.end(signal.SIGKILL)
    pid = postmaster_pid(home)
    with EmbeddedServer(home) as server:
        assert server.url() == url
        assert postmaster_pid(home) == pid
    assert is_down(home)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_stop_the_server_too(home, number, code):
    """Expect a command that is asked to end to stop its server first."""
    with command(home) as asked:
        asked.url()
        assert asked.end(number) == code
    assert is_down(home)


def test_interrupt_is_for_the_command_alone(home):
    """Expect Ctrl-C, sent to the whole process group, not to reach the server before the command stops it."""
    with command(home) as interrupted:
        url = interrupted.url()
        assert ask(url, "SELECT 1") == 1
        assert os.getsid(postmaster_pid(home)) != os.getsid(interrupted.process.pid)
        os.killpg(interrupted.process.pid, signal.SIGINT)
        interrupted.process.communicate(timeout=60)
    assert is_down(home)
    log = (home / "postgres" / "server.log").read_text()
    assert log.rstrip().endswith("database system is shut down")


def test_interrupted_start_leaves_nothing(bare_home):
    """Expect a command ended while it makes the data to leave no half of them, and no process."""
    with command(bare_home) as asked:
        wait_until(lambda: list(bare_home.glob("postgres/draft-*")))
        assert asked.end(signal.SIGTERM) == 143
    assert not list(bare_home.glob("postgres/d*"))
    with EmbeddedServer(bare_home) as server:
        assert ask(server.url(), "SELECT 1") == 1


def test_handlers_of_the_program_are_kept(home):
    """Expect SIGTERM to be left alone where the program handles it, and given back where not."""
    before = signal.getsignal(signal.SIGTERM)  # the tier's own server may have set one
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with EmbeddedServer(home):
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with EmbeddedServer(home):
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
