"""Commands that use an embedded server, and what can be asked about it."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from rcll.store.embedded import EmbeddedServer

# A command that uses the server until its input ends.
COMMAND = """
import sys
from pathlib import Path
from rcll.store.embedded import EmbeddedServer
with EmbeddedServer(Path(sys.argv[1])) as server:
    print(server.url(), flush=True)
    sys.stdin.read()
"""


class Command:
    """Another process that uses the server of a home."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def url(self) -> str:
        """Wait until it works and return what it works on."""
        return self.process.stdout.readline().strip()

    def end(self, number: int | None = None) -> int:
        """Let it end by itself, or by a signal; return its exit code."""
        if number is not None:
            self.process.send_signal(number)
        self.process.communicate(timeout=60)
        return self.process.returncode


@contextmanager
def command(home: Path) -> Iterator[Command]:
    """Run a command, ended in any case."""
    started = Command(home)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.end(signal.SIGKILL)
        started.process.stdin.close()
        started.process.stdout.close()


def ask(url: str, question: str) -> object:
    """Return the one value that a query answers."""
    with psycopg.connect(url, connect_timeout=10) as conn:
        return conn.execute(question).fetchone()[0]


def postmaster_pid(home: Path) -> int:
    """Read the number of the running server's first process."""
    return int((home / "postgres" / "data" / "postmaster.pid").read_text().split()[0])


def wait_until(condition: Callable[[], object], seconds: float = 10) -> None:
    """Wait for something that happens soon."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_down(home: Path) -> bool:
    """Say whether no process works on the data and no socket is left."""
    return not (home / "postgres" / "data" / "postmaster.pid").exists()


def keep_a_row(home: Path) -> None:
    """Write something that must be found again."""
    with EmbeddedServer(home) as server, psycopg.connect(server.url()) as conn:
        conn.execute("DROP TABLE IF EXISTS kept")
        conn.execute("CREATE TABLE kept AS SELECT 42 AS answer")
