"""Prefect's own server for one command: it ends with the command, however that ends."""

import os
import signal
import subprocess
import sys
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
