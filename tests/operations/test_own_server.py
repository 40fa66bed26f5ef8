"""Prefect's own server for one command: it ends with the command, however that ends."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.operations.conftest import ROOT, wait_until

pytestmark = pytest.mark.timeout(600)

_PROGRAM = """
import time
from pathlib import Path
from rcll.prefect_env import prepare_prefect
from rcll.prefect_server import start_server
prepare_prefect(Path({home!r}))
print(start_server(), flush=True)
time.sleep(600)
"""


def test_server_ends_when_its_command_is_killed(tmp_path):
    """Kill -9 of the command leaves no server behind; its files are for the owner's eyes."""
    program = _PROGRAM.format(home=str(tmp_path / "home"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment |= {"NO_PROXY": "127.0.0.1"}
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, env=environment, stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        api = parent.stdout.readline().decode().strip()
        assert httpx.get(f"{api}/health", timeout=60).status_code == 200
        (child,) = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text(encoding="ascii").split()
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{child}").exists(), seconds=60)
    assert (tmp_path / "home" / "prefect").stat().st_mode & 0o077 == 0


def test_wrong_api_is_named(place):
    """Nobody at PREFECT_API_URL: one line that says so, and nothing is written."""
    place.environment["PREFECT_API_URL"] = "http://127.0.0.1:9/api"
    done = place.run("rcll", "reorganize", check=False)
    assert done.returncode == 1
    assert "no Prefect API answers at http://127.0.0.1:9/api" in done.stderr
    assert place.rows("SELECT FROM pg_class WHERE relname = 'rcll_runs'") == []


def test_command_starts_one_server_and_no_other(place):
    """Prefect starts none of its own beside ours; when the command ends, none is left."""
    del place.environment["PREFECT_API_URL"]
    with place.running("rcll", "reorganize", "--only", "labels") as command:
        seen = set()
        while command.poll() is None:
            seen |= _servers(place)
            time.sleep(0.2)
    assert command.returncode == 0
    assert len(seen) == 1, seen
    assert _servers(place) == set()


def _servers(place):
    """Processes that serve Prefect's API for this place."""
    mark, found = f"PREFECT_HOME={place.environment['PREFECT_HOME']}".encode(), set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes()
            is_server = b"uvicorn" in words or b"rcll.prefect_server" in words
            if is_server and mark in (folder / "environ").read_bytes():
                found.add(folder.name)
    return found
