"""rcll serve and rcll keys as a user types them."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Program:
    """rcll on one database."""

    def __init__(self, url: str, home: Path) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("RCLL_")}
        self._environment = clean | {"RCLL_DATABASE_URL": url, "RCLL_HOME": str(home)}
        self._program = Path(sys.executable).parent / "rcll"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [self._program, *words], env=self._environment, capture_output=True, text=True, check=False, timeout=60
        )

    @contextmanager
    def serving(self, *words: str) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
        """The server, once it answers, and a client of it."""
        port = _free_port()
        process = subprocess.Popen(
            [self._program, "serve", "--port", str(port), *words],
            env=self._environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                deadline = time.monotonic() + 60
                while not _answers(client):
                    assert process.poll() is None, process.stderr.read()
                    assert time.monotonic() < deadline, "the server did not start"
                    time.sleep(0.05)
                yield process, client
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stderr.close()


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


@pytest.fixture
def rcll(own_template, clone, tmp_path) -> Program:
    """The program on a database of rcll's own tables."""
    return Program(clone(own_template).url, tmp_path)


def _one_line(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    assert all(word in lines[0] for word in words), lines[0]


def test_serve_starts_logs_and_ends_with_ctrl_c(rcll):
    """It says where it listens, logs calls without their texts, and Ctrl+C ends it in order."""
    with rcll.serving() as (process, client):
        assert client.get("/version").json()["rcll"]
        assert client.post("/banks/b/retain", json={"content": "the secret of the orchard"}).status_code == 200
        assert client.get("/banks/b/recall?query=secret+orchard").status_code == 200
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode in (0, 130), err
    assert "Traceback" not in err
    assert re.search(r"listening on http://127\.0\.0\.1:\d+", err)
    calls = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert {"method": "POST", "route": "/banks/{bank_id:path}/retain", "status": 200} in [
        {name: call[name] for name in ("method", "route", "status")} for call in calls
    ]
    assert "secret" not in err


def test_keys_open_and_close_a_running_server(rcll):
    """The first key closes it to everybody else; the list shows no secret; a revoked key is refused at once."""
    with rcll.serving() as (_, client):
        assert client.get("/banks").status_code == 200
        made = rcll.run("keys", "add", "ci", "--write", "team-*", "--json")
        key = json.loads(made.stdout)
        assert client.get("/banks").status_code == 401
        sent = {"authorization": f"Bearer {key['key']}"}
        assert client.post("/banks/team-a/retain", json={"content": "x"}, headers=sent).status_code == 200
        assert client.post("/banks/other/retain", json={"content": "x"}, headers=sent).status_code == 403
        shown = rcll.run("keys", "list", "--json")
        assert [each["key_id"] for each in json.loads(shown.stdout)] == [key["key_id"]]
        assert key["key"].split("_")[-1] not in shown.stdout + rcll.run("keys", "list").stdout
        assert rcll.run("keys", "revoke", key["key_id"]).returncode == 0
        other = json.loads(rcll.run("keys", "add", "reader", "--read", "*", "--json").stdout)
        assert client.get("/banks", headers=sent).status_code == 401
        assert client.get("/banks", headers={"x-api-key": other["key"]}).json()["total"] == 1
        _one_line(rcll.run("keys", "revoke", key["key_id"]), 2, "no open key", key["key_id"])


def test_what_serve_refuses(rcll):
    """Listening beyond loopback without a key, a rate that is none, a port in use: one line each, and no server."""
    _one_line(rcll.run("serve", "--host", "0.0.0.0", "--port", str(_free_port())), 2, "without a key", "rcll keys add")
    _one_line(rcll.run("serve", "--rate-limit", "often"), 2, "'often' is no rate", "100/second")
    with ExitStack() as stack:
        taken = stack.enter_context(socket.socket())
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        _one_line(rcll.run("serve", "--port", port), 2, port, "in use", "--port")
    assert rcll.run("keys", "add", "ci", "--read", "*").returncode == 0
    _one_line(rcll.run("serve", "--host", "no-such-host.invalid"), 2, "no-such-host.invalid", "cannot listen")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("add", "ci"), "--read or --write"),
        (("add", "ci", "--read", " "), "--read or --write"),
        (("add", "", "--read", "*"), "expected 1 to 200"),
        (("add", "n" * 201, "--read", "*"), "201"),
        (("revoke", "nonesuch"), "nonesuch"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value)[:20],
)
def test_what_keys_refuses(rcll, words, expected):
    """A key for no bank, without a name, or of no number: one line."""
    _one_line(rcll.run("keys", *words), 2, expected)
