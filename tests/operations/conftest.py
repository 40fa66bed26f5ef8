"""A real Prefect server, work pool and worker on loopback, as docs/operations.md sets them up."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from rcll.store.connect import Database
from tests.integration.conftest import admin, clone, make_template, server
from tests.integration.places import fill

__all__ = ["admin", "clone", "make_template", "server"]  # pytest finds the fixtures by these names

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
N_UNITS = 300
START_SECONDS = 240


def wait_until(found: Callable[[], Any], seconds: float = START_SECONDS) -> Any:
    """Ask until something is found, and give it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.5)
    raise AssertionError(f"nothing after {seconds} s")


@dataclass
class Site:
    """Where everything of a small operation lies, and its database of one bank-like table."""

    folder: Path
    environment: dict[str, str]
    database: Database
    api: str

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run prefect or rcll to its end."""
        done = subprocess.run(
            [BIN / command[0], *command[1:]],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert not check or done.returncode == 0, (command, done.stdout, done.stderr)
        return done

    @contextmanager
    def running(self, *command: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Keep a process up; ended by SIGTERM, as Prefect wants it."""
        log = self.folder / f"{command[1]}.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [BIN / command[0], *command[1:]],
                cwd=self.folder,
                env=self.environment,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @contextmanager
    def server(self) -> Iterator["subprocess.Popen[bytes]"]:
        """Keep Prefect's server up; with its records of before, where it was up before."""
        port = self.api.split(":")[2].removesuffix("/api")
        with self.running("prefect", "server", "start", "--host", "127.0.0.1", "--port", port) as process:
            wait_until(lambda: _is_up(self.api))
            yield process

    @contextmanager
    def worker(self) -> Iterator["subprocess.Popen[bytes]"]:
        """Keep a worker of the pool up."""
        with self.running("prefect", "worker", "start", "--pool", "rcll", "--name", "first") as process:
            yield process

    def ask(self, path: str, **body: Any) -> Any:
        """Ask Prefect's API."""
        return httpx.post(f"{self.api}/{path}", json=body, timeout=60).raise_for_status().json()

    def flow_runs(self, flow: str) -> list[dict[str, Any]]:
        """Runs of a flow that are due or over, oldest first."""
        chosen = {"flows": {"name": {"any_": [flow]}}, "sort": "START_TIME_ASC"}
        return [run for run in self.ask("flow_runs/filter", **chosen) if run["state_type"] != "SCHEDULED"]

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Ask the database."""
        with self.database.connect() as conn:
            return conn.execute(statement).fetchall()


def _fill(database: Database) -> None:
    fill(database, "hindsight")
    with database.connect() as conn:
        conn.execute("UPDATE memory_units SET text = 'The disk of server alder was full, case ' || right(id::text, 3)")
        conn.execute("VACUUM (FULL) memory_units")


def processes_of(flow_run: str) -> list[int]:
    """Processes that a worker started for a run, oldest first: the last one executes the flow."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "environ").read_bytes()
            started = int((folder / "stat").read_text(encoding="ascii").rpartition(")")[2].split()[19])
            if f"PREFECT__FLOW_RUN_ID={flow_run}".encode() in words:
                found.append((started, int(folder.name)))
    return [pid for _, pid in sorted(found)]


def make_site(folder: Path, database: Database, **settings: str) -> Site:
    """A home, an address for Prefect, a copy of flows and of a prefect.yaml whose nightly run is due every minute."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RCLL_", "PREFECT_"))}
    shutil.copytree(ROOT / "flows", folder / "flows", ignore=shutil.ignore_patterns("__pycache__"))
    text = (ROOT / "prefect.yaml").read_text(encoding="utf-8")
    (folder / "prefect.yaml").write_text(re.sub(r"30 2 \* \* \*", "* * * * *", text), encoding="utf-8")
    api = f"http://127.0.0.1:{free_port()}/api"
    ours = {
        "RCLL_DATABASE_URL": database.url,
        "RCLL_HOME": str(folder / "home"),
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_API_URL": api,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_CLI_PROMPT": "false",
        "PYTHONPATH": str(ROOT),
        "NO_PROXY": "127.0.0.1",
    }
    return Site(folder, kept | ours | settings, database, api)


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def place(make_template, clone, tmp_path) -> Site:
    """A database of one bank-like table, and what an operation around it needs; nothing is up yet."""
    return make_site(tmp_path, clone(make_template("operations", _fill)))


@pytest.fixture
def site(place) -> Iterator[Site]:
    """The same with a server, the pool, every deployment and one worker."""
    with place.server():
        place.run("prefect", "work-pool", "create", "--type", "process", "rcll")
        place.run("prefect", "deploy", "--all")
        with place.worker():
            yield place


def _is_up(api: str) -> bool:
    try:
        return httpx.get(f"{api}/health", timeout=5).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
