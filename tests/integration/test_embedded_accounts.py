"""The embedded server for root, for an ordinary user, and where the folder or the disk says no."""

import logging
import os
import resource
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from rcll.errors import DatabaseError, InputError
from rcll.store import binaries
from rcll.store.embedded import EmbeddedServer
from tests.integration.accounts import ORDINARY, in_a_process, needs_root


def use(home: Path, question: str = "SELECT 1") -> object:
    """Start the server, ask it one thing, stop it."""
    with EmbeddedServer(home) as server, psycopg.connect(server.url()) as conn:
        return conn.execute(question).fetchone()[0]


@pytest.fixture
def reachable_programs(bare_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give an ordinary user the programs where the virtual environment is root's alone."""
    shipped = binaries._shipped()
    if not binaries.Binaries(bare_home).can_reach(shipped / "bin"):
        shutil.copytree(shipped, bare_home / "programs")
        monkeypatch.setattr(binaries, "_shipped", lambda: bare_home / "programs")


@pytest.fixture
def ordinary_home(bare_home: Path, reachable_programs: None) -> Path:
    """A home that belongs to an ordinary user."""
    home = bare_home / "mine"
    home.mkdir()
    if os.geteuid() == 0:
        os.chown(home, ORDINARY.pw_uid, ORDINARY.pw_gid)
    return home


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Stand in for /var/lib/rcll."""
    folder = Path(tempfile.mkdtemp(prefix="rcll-test-"))
    monkeypatch.setattr(binaries, "ROOTS_PLACES", (folder / "taken" / "never", folder / "rcll"))
    (folder / "taken").touch()
    folder.chmod(0o711)
    yield folder / "rcll"
    shutil.rmtree(folder)


# -- an ordinary user --------------------------------------------------------------------------------------


def test_ordinary_user(ordinary_home):
    """Expect a server of the user's own in the user's own home, found again, with data closed to others."""

    def twice() -> object:
        use(ordinary_home, "SELECT 1")
        return use(ordinary_home, "SELECT current_user")

    assert in_a_process(twice, ordinary=True) == "rcll"
    data = ordinary_home / "postgres" / "data"
    assert not data.is_symlink()
    assert data.stat().st_mode & 0o077 == 0
    assert data.stat().st_uid == ordinary_home.stat().st_uid


def test_read_only_home(ordinary_home):
    """Expect one line that names the home, the reason and what to do, and nothing made."""
    ordinary_home.chmod(0o555)
    with pytest.raises(InputError, match=r"RCLL_HOME .*mine cannot be used: Permission denied.*set RCLL_HOME"):
        in_a_process(lambda: use(ordinary_home), ordinary=True)
    assert not list(ordinary_home.iterdir())
    with pytest.raises(InputError, match="Permission denied"):
        in_a_process(lambda: use(ordinary_home / "sub"), ordinary=True)


def test_full_disk(ordinary_home):
    """Expect a failing initdb to be told in one line and to leave no half of the data."""

    def starve() -> object:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        return use(ordinary_home)

    with pytest.raises(DatabaseError, match=r"cannot make its data in .*; correct that") as failure:
        in_a_process(starve, ordinary=True)
    assert "\n" not in str(failure.value)
    assert not list((ordinary_home / "postgres").glob("d*"))
    assert in_a_process(lambda: use(ordinary_home), ordinary=True) == 1


def test_programs_in_an_odd_folder(ordinary_home, bare_home, monkeypatch):
    """Expect a virtual environment whose path a shell would misread to be named as the reason."""
    monkeypatch.setattr(binaries, "_shipped", lambda: bare_home / 'a "b"')
    with pytest.raises(InputError, match="move the virtual environment"):
        in_a_process(lambda: use(ordinary_home), ordinary=True)


@needs_root
def test_home_of_somebody_else(home, ordinary_home):
    """Expect root to run the server for data of an ordinary user as that user, who can use them afterwards."""
    in_a_process(lambda: use(ordinary_home), ordinary=True)
    assert use(ordinary_home) == 1
    assert in_a_process(lambda: use(ordinary_home), ordinary=True) == 1
    with pytest.raises(InputError, match="Permission denied"):
        in_a_process(lambda: use(home), ordinary=True)


# -- root --------------------------------------------------------------------------------------------------


@needs_root
def test_closed_home(bare_home, place, caplog):
    """Expect data where the account reaches them, a line that says where, the same data next time, no silent loss."""
    closed = bare_home / "closed"
    closed.mkdir(mode=0o700)
    home = closed / "home"
    with caplog.at_level(logging.WARNING):
        use(home)
    link = home / "postgres" / "data"
    assert link.readlink().parent.parent == place
    assert str(link.readlink()) in caplog.text
    caplog.clear()
    with EmbeddedServer(home) as server, psycopg.connect(server.url()) as conn:
        conn.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    assert use(home, "SELECT answer FROM kept") == 42
    assert not caplog.text
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert stat.S_IMODE(place.stat().st_mode) == 0o711
    assert (home / "postgres" / "server.log").exists()
    shutil.rmtree(place)
    with pytest.raises(DatabaseError, match=r"which is gone.*delete the link"):
        use(home)


@needs_root
def test_home_closed_later(home):
    """Expect to be told how to open a home that was closed after its data had been made."""
    home.chmod(0o700)
    with pytest.raises(DatabaseError, match=r"cannot reach it.*chmod o\+x"):
        use(home)
    home.chmod(0o711)
    assert use(home) == 1


@needs_root
@pytest.mark.parametrize("name", ["closed", 'open "q"'])
def test_programs_out_of_reach(home, bare_home, place, monkeypatch, caplog, name):
    """Expect a copy of the programs, made once, where the account cannot use the virtual environment's."""
    folder = bare_home / name
    folder.mkdir(mode=0o700 if name == "closed" else 0o755)
    shutil.copytree(binaries._shipped(), folder / "pginstall", copy_function=os.link)
    monkeypatch.setattr(binaries, "_shipped", lambda: folder / "pginstall")
    with caplog.at_level(logging.WARNING):
        assert use(home) == 1
        assert use(home) == 1
    copies = list(place.iterdir())
    assert [copy.name.startswith("postgresql-") for copy in copies] == [True]
    assert caplog.text.count(f"copied to {copies[0]}") == 1
    assert not [path for path in copies[0].rglob("*") if path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)]


@needs_root
def test_place_of_somebody_else(bare_home, place):
    """Expect a folder in which others could exchange the programs not to be used."""
    place.mkdir()
    os.chown(place, ORDINARY.pw_uid, ORDINARY.pw_gid)
    bare_home.chmod(0o700)
    with pytest.raises(InputError, match=r"refuses to run as root.*RCLL_DATABASE_URL"):
        use(bare_home)


@needs_root
def test_socket_folder_of_somebody_else(home):
    """Expect a private folder of another account, as a pid file names it, not to be used."""
    data = home / "postgres" / "data"
    sockets = home / "theirs"
    sockets.mkdir(mode=0o700)
    (data / "postmaster.pid").write_text(f"1\n{data}\n1\n5432\n{sockets}\n\n 1 1\nready\n")
    with EmbeddedServer(home) as server:
        assert str(sockets) not in server.url()
    assert sockets.exists()
