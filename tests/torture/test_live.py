"""A live Hindsight server retains and recalls all the while a large legacy bank is labelled: 0 errors."""

import threading
import time
from typing import Self

import httpx
import pytest

from tests.hindsight.conftest import Hindsight, hindsight
from tests.integration.walks import Walk, migrated

__all__ = ["Hindsight", "hindsight"]  # pytest finds the fixture by this name

_FILL = """
INSERT INTO memory_units (id, bank_id, text, embedding, event_date, fact_type, search_vector)
SELECT gen_random_uuid(), 'legacy', t.text, t.vector, now(), 'world', to_tsvector('english', t.text)
FROM (SELECT 'Server alder ran out of disk space, case ' || n || repeat(' word', 20 + mod(n * 7919, 60)) AS text,
             (SELECT array_agg(sin(n * i + mod(n, 300))) FROM generate_series(1, 384) i)::real[]::vector AS vector
      FROM generate_series(1, %s) n) t
"""


class _Client:
    """Retains and recalls until it is stopped; keeps latencies and what went wrong."""

    def __init__(self, server: Hindsight) -> None:
        self._server = server
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._retain, self._recall)]
        self.errors: list[str] = []
        self.seconds: dict[str, list[float]] = {"retain": [], "recall": []}

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _call(self, kind: str, path: str, body: object) -> None:
        start = time.monotonic()
        answer = self._server.call("POST", f"/banks/legacy/memories{path}", body)
        self.seconds[kind].append(time.monotonic() - start)
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


@pytest.mark.timeout(3600)
def test_live_server_beside_a_backfill(hindsight, tmp_path, counts):
    """Every call of the server's clients succeeds, every legacy unit is labelled, and what is live keeps going."""
    hindsight.retain("legacy", {"first": "Server alder has two disks."})
    with hindsight.database.connect() as conn:
        conn.execute(_FILL, [counts.n_live_units])
    walk = Walk(hindsight.database, migrated(hindsight.database), tmp_path)
    untouched = "SELECT md5(string_agg(concat(id, text, tags, updated_at), '' ORDER BY id)) FROM memory_units"
    legacy = f"{untouched} WHERE text LIKE 'Server alder ran%'"
    before = walk.rows(legacy)
    changes = walk.plan()
    with _Client(hindsight) as client:
        time.sleep(2)
        _, loaded = walk.apply(changes)
        time.sleep(2)
    assert client.errors == []
    assert min(len(seconds) for seconds in client.seconds.values()) > 3
    assert loaded.n_written >= counts.n_live_units
    assert walk.rows(legacy) == before
    assert walk.run()[1].skipped == {}
    assert walk.plan().is_empty()
