"""A real Hindsight server on a database of its own, embeddings from a small server over a socket."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from rcll.store.connect import Database
from tests.doubles.openai_double import OpenAIDouble
from tests.integration.conftest import admin, server

__all__ = ["admin", "server"]  # pytest finds the fixtures by these names

DIMENSIONS = 384
START_SECONDS = 120


class Hindsight:
    """The server process and calls to it; ``database`` is where it keeps its banks."""

    def __init__(self, database: Database, embeddings_url: str, log: Path, **more: str) -> None:
        self.database = database
        self._log = log
        self._port = _free_port()
        self._environment = {
            "HINDSIGHT_API_DATABASE_URL": database.url,
            "HINDSIGHT_API_LLM_PROVIDER": "none",
            "HINDSIGHT_API_LLM_MODEL": "none",
            "HINDSIGHT_API_SKIP_LLM_VERIFICATION": "true",
            "HINDSIGHT_API_EMBEDDINGS_PROVIDER": "openai",
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_API_KEY": "test-key",
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_BASE_URL": embeddings_url,
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_MODEL": "double",
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_DIMENSIONS": str(DIMENSIONS),
            "HINDSIGHT_API_RERANKER_PROVIDER": "rrf",
            "HINDSIGHT_API_HOST": "127.0.0.1",
            "HINDSIGHT_API_PORT": str(self._port),
            "HINDSIGHT_API_DB_POOL_MIN_SIZE": "2",
            "HINDSIGHT_API_DB_POOL_MAX_SIZE": "10",
            **more,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.base_url = f"http://127.0.0.1:{self._port}"
        self._client = httpx.Client(base_url=self.base_url, timeout=60)

    def start(self) -> None:
        """Run Hindsight's own migrations and wait until it is healthy."""
        program = Path(sys.executable).parent / "hindsight-api"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [program], env=os.environ | self._environment, stdout=log, stderr=subprocess.STDOUT
            )
        for _ in range(START_SECONDS * 5):
            assert self._process.poll() is None, self._log.read_text()[-2000:]
            try:
                if self._client.get("/health").status_code == httpx.codes.OK:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.2)
        pytest.fail(f"Hindsight did not start: {self._log.read_text()[-2000:]}")

    def stop(self) -> None:
        """End the server as an operator does."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)

    def close(self) -> None:
        """Stop and let go of the client."""
        self.stop()
        self._client.close()

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Call a route below /v1/default."""
        return self.ask(method, f"/v1/default{path}", body, **headers)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Call any route."""
        return self._client.request(method, path, json=body, headers=headers)

    def retain(self, bank: str, texts: dict[str, str]) -> None:
        """Retain one document for each (id, text)."""
        items = [{"content": text, "document_id": document} for document, text in texts.items()]
        answer = self.call("POST", f"/banks/{bank}/memories", {"items": items})
        assert answer.status_code == httpx.codes.OK, answer.text

    def recall(self, bank: str, question: str) -> list[str]:
        """Texts that recall answers with, best first."""
        answer = self.call("POST", f"/banks/{bank}/memories/recall", {"query": question})
        assert answer.status_code == httpx.codes.OK, answer.text
        return [result["text"] for result in answer.json()["results"]]

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Ask the database directly."""
        with self.database.connect() as conn:
            return conn.execute(statement).fetchall()


@contextmanager
def running_hindsight(server: Any, admin: Any, log: Path, **more: str) -> Generator[Hindsight]:
    """A fresh Hindsight server, healthy, with no banks; ``more`` is added to its environment."""
    name = f"hindsight_{time.monotonic_ns()}"
    admin.execute(f"CREATE DATABASE {name}")
    with psycopg.connect(server.url(name), autocommit=True) as conn:
        conn.execute("CREATE EXTENSION vector; CREATE EXTENSION pg_trgm; CREATE EXTENSION btree_gin")
    with OpenAIDouble(dims=DIMENSIONS) as double:
        running = Hindsight(Database(server.url(name), is_embedded=False), double.base_url, log, **more)
        try:
            running.start()
            yield running
        finally:
            running.close()
    admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def hindsight(server, admin, tmp_path) -> Iterator[Hindsight]:
    """A fresh Hindsight server, healthy, with no banks."""
    with running_hindsight(server, admin, tmp_path / "hindsight.log") as running:
        yield running


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
