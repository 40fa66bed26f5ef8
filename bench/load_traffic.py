"""A live server in small, in a process of its own: single updates, inserts, updates of ten, vector searches.

``python -m bench.load_traffic URL``; a line on standard input names the next phase, ``end`` ends it and prints
n, p50, p99 and max in milliseconds by kind and phase.
"""

import json
import random
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable

import psycopg

_SEARCH = """
    SELECT id FROM memory_units WHERE bank_id = 'alpha' AND fact_type = 'world'
    ORDER BY embedding <=> %s::vector LIMIT 20
"""
_INSERT = """
    INSERT INTO memory_units (id, bank_id, text, embedding, event_date, fact_type)
    SELECT gen_random_uuid(), bank_id, 'live text ' || random(), embedding, now(), fact_type
    FROM memory_units WHERE id = %s
"""


class Traffic:
    """Clients that work until they are stopped, and what each call took."""

    def __init__(self, url: str) -> None:
        self.phase = "idle"
        self.deadlocks = 0
        self._url = url
        self._latencies: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._stop = threading.Event()
        with psycopg.connect(url) as conn:
            self._ids = [row[0] for row in conn.execute("SELECT id FROM memory_units TABLESAMPLE BERNOULLI (20)")]
            rows = conn.execute("SELECT embedding::text FROM memory_units WHERE fact_type = 'world' LIMIT 50")
            self._vectors = [row[0] for row in rows]
        clients = {"update": (self._update, 0.01), "insert": (self._insert, 0.05)}
        clients |= {"ten": (self._ten, 0.1), "search": (self._search, 0.02)}
        self._threads = [threading.Thread(target=self._work, args=(kind, *client)) for kind, client in clients.items()]
        for thread in self._threads:
            thread.start()

    def end(self) -> dict[str, object]:
        """Stop, and sum up."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        found: dict[str, object] = {"deadlocks": self.deadlocks}
        for (kind, phase), seconds in sorted(self._latencies.items()):
            ms = sorted(1000 * value for value in seconds)
            at = {"p50": ms[len(ms) // 2], "p99": ms[int(0.99 * (len(ms) - 1))], "max": ms[-1]}
            found[f"{kind} {phase}"] = {"n": len(ms)} | {name: round(value, 1) for name, value in at.items()}
        return found

    def _work(self, kind: str, call: Callable[[psycopg.Connection, random.Random], None], pause: float) -> None:
        rnd = random.Random(kind)
        with psycopg.connect(self._url, autocommit=True) as conn:
            while not self._stop.wait(pause):
                phase, start = self.phase, time.monotonic()
                try:
                    call(conn, rnd)
                except psycopg.errors.DeadlockDetected:
                    self.deadlocks += 1
                else:
                    self._latencies[kind, phase].append(time.monotonic() - start)

    def _update(self, conn: psycopg.Connection, rnd: random.Random) -> None:
        conn.execute("UPDATE memory_units SET consolidated_at = now() WHERE id = %s", [rnd.choice(self._ids)])

    def _insert(self, conn: psycopg.Connection, rnd: random.Random) -> None:
        conn.execute(_INSERT, [rnd.choice(self._ids)])

    def _ten(self, conn: psycopg.Connection, rnd: random.Random) -> None:
        with conn.transaction():
            for unit_id in rnd.sample(self._ids, 10):
                conn.execute("UPDATE memory_units SET proof_count = proof_count + 1 WHERE id = %s", [unit_id])

    def _search(self, conn: psycopg.Connection, rnd: random.Random) -> None:
        conn.execute(_SEARCH, [rnd.choice(self._vectors)]).fetchall()


def main() -> None:
    traffic = Traffic(sys.argv[1])
    for line in sys.stdin:
        if line.strip() == "end":
            break
        traffic.phase = line.strip()
    print(json.dumps(traffic.end()))


if __name__ == "__main__":
    main()
