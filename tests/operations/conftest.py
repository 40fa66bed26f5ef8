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
from contextlib import ExitStack, contextmanager
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


@pytest.fixture
def place(make_template, clone, tmp_path) -> Site:
    """A database, a home and a copy of prefect.yaml and flows whose nightly run is due every minute."""
    database = clone(make_template("operations", _fill))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RCLL_", "PREFECT_"))}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        api = f"http://127.0.0.1:{free.getsockname()[1]}/api"
    shutil.copytree(ROOT / "flows", tmp_path / "flows", ignore=shutil.ignore_patterns("__pycache__"))
    text = (ROOT / "prefect.yaml").read_text(encoding="utf-8")
    (tmp_path / "prefect.yaml").write_text(re.sub(r"30 2 \* \* \*", "* * * * *", text), encoding="utf-8")
    ours = {
        "RCLL_DATABASE_URL": database.url,
        "RCLL_HOME": str(tmp_path / "home"),
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_API_URL": api,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_CLI_PROMPT": "false",
        "PYTHONPATH": str(ROOT),
        "NO_PROXY": "127.0.0.1",
    }
    return Site(tmp_path, kept | ours, database, api)


@pytest.fixture
def site(place) -> Iterator[Site]:
    """The same with a server, the pool, every deployment and one worker."""
    port = place.api.split(":")[2].removesuffix("/api")
    with ExitStack() as stack:
        stack.enter_context(place.running("prefect", "server", "start", "--host", "127.0.0.1", "--port", port))
        wait_until(lambda: _is_up(place.api))
        place.run("prefect", "work-pool", "create", "--type", "process", "rcll")
        place.run("prefect", "deploy", "--all")
        stack.enter_context(place.running("prefect", "worker", "start", "--pool", "rcll", "--name", "first"))
        yield place


def _is_up(api: str) -> bool:
    try:
        return httpx.get(f"{api}/health", timeout=5).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
