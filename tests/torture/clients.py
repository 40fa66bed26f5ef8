"""Clients of a live Hindsight server, and a legacy bank in its database."""

import threading
import time
from typing import Self

import httpx

from tests.hindsight.conftest import Hindsight

BANK = "legacy"
_FILL = """
INSERT INTO memory_units (id, bank_id, text, embedding, event_date, fact_type, search_vector)
SELECT gen_random_uuid(), 'legacy', t.text, t.vector, now(), 'world', to_tsvector('english', t.text)
FROM (SELECT 'Server alder ran out of disk space, case ' || n || repeat(' word', 20 + mod(n * 7919, 60)) AS text,
             (SELECT array_agg(sin(n * i + mod(n, 300))) FROM generate_series(1, 384) i)::real[]::vector AS vector
      FROM generate_series(1, %s) n) t
"""


def fill_legacy(server: Hindsight, n_units: int) -> None:
    """Make a bank by a retain, so that it has its vector indexes, and add units as if they had always been there."""
    server.retain(BANK, {"first": "Server alder has two disks."})
    with server.database.connect() as conn:
        conn.execute(_FILL, [n_units])


class Clients:
    """One retains and one recalls until they are stopped; latencies by (call, phase), and what went wrong."""

    def __init__(self, server: Hindsight) -> None:
        self._server = server
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._retain, self._recall)]
        self.phase = "idle"
        self.errors: list[str] = []
        self.seconds: dict[tuple[str, str], list[float]] = {}

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _call(self, kind: str, path: str, body: object) -> None:
        phase, start = self.phase, time.monotonic()
        answer = self._server.call("POST", f"/banks/{BANK}/memories{path}", body)
        self.seconds.setdefault((kind, phase), []).append(time.monotonic() - start)
        if answer.status_code != httpx.codes.OK:
            self.errors.append(f"{kind}: {answer.status_code} {answer.text[:200]}")

    def _retain(self) -> None:
        number = 0
        while not self._stop.wait(0.2):
            number += 1
            item = {"content": f"The backup of server {number} failed.", "document_id": f"live-{number % 7}"}
            self._call("retain", "", {"items": [item]})

    def _recall(self) -> None:
        while not self._stop.wait(0.2):
            self._call("recall", "/recall", {"query": "Which server ran out of disk space?"})
