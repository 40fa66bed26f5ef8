"""A packed bank, a job that labels it in a process of its own, and others who change it all the while."""

import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Self

from rcll.store.checks import run_checks
from rcll.store.connect import Database
from rcll.store.ledger import set_explicit
from tests.integration.places import fill
from tests.integration.walks import Walk

ROOT = Path(__file__).parents[2]
_TEXTS = ("Server alder ran out of disk space", "The login token of user fir had expired", "Lena likes green tea")


def fill_packed(database: Database, n_units: int) -> None:
    """Make a Hindsight-like database whose pages hold about eight units, with a vector index for each bank."""
    fill(database, "hindsight")
    with database.connect() as conn:
        conn.execute("DELETE FROM memory_units")
        conn.execute(
            "INSERT INTO memory_units (bank_id, text, embedding, event_date)"
            " SELECT (ARRAY['alice', 'bob'])[mod(n, 2) + 1], (%s::text[])[mod(n, 3) + 1] || ', case ' || n ||"
            "        repeat(' word', 110 + mod(n * 7919, 60)),"
            "        (SELECT array_agg(sin(n * i)) FROM generate_series(1, 384) i)::real[]::vector, now()"
            " FROM generate_series(1, %s) n",
            [list(_TEXTS), n_units],
        )
        for bank in ("alice", "bob"):
            conn.execute(
                f"CREATE INDEX ON memory_units USING hnsw (embedding vector_cosine_ops) WHERE bank_id = '{bank}'"
            )
        conn.execute("VACUUM (FULL, ANALYZE) memory_units")


class Job:
    """``tests.torture.job``, or another such module, in a process of its own."""

    def __init__(self, url: str, folder: Path, *words: str, module: str = "tests.torture.job") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, url, str(folder), *words],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, word: str) -> None:
        """Wait until it says that it has come so far."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line.strip() == word, (line, self.process.stderr.read() if self.process.stderr else "")

    def end(self, number: int | None = None) -> tuple[int, str]:
        """Send it a signal or none, wait for its end; returns exit code and what it said on standard error."""
        if number is not None:
            self.process.send_signal(number)
        _, err = self.process.communicate(timeout=120)
        return self.process.returncode, err


def end_state(walk: Walk) -> dict[str, Any]:
    """Everything that a rerun must bring to the same: labels and ledger, less who wrote it when."""
    ledger = (
        "SELECT unit_id::text, bank_id, room, hall, layer, room_source, hall_source, layer_source, room_rule,"
        " hall_rule, taxonomy_hash, text_hash, is_held FROM rcll_labels"
    )
    return {"labels": walk.labels(), "ledger": {row[0]: row[1:] for row in walk.rows(ledger)}}


def assert_finished(walk: Walk, rules: str = "T") -> None:
    """Nothing is left to do, no rule of sql/checks is broken, and every unit was logged once."""
    assert walk.plan(rules=rules).is_empty()
    with walk.database.connect() as conn:
        assert run_checks(conn, walk.tenant) == {}
    assert walk.rows("SELECT unit_id FROM rcll_changes GROUP BY 1 HAVING count(*) > 1") == []


def expire_leases(walk: Walk) -> None:
    """Stand for the minute after which a dead holder's lease is free."""
    walk.do("UPDATE rcll_leases SET expires_at = clock_timestamp()")


class Crowd:
    """People and a live server at work on random units, each in a thread; counts what they did, keeps errors."""

    def __init__(self, walk: Walk, seed: int) -> None:
        self._walk, self._seed = walk, seed
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.people: dict[str, str] = {}
        self.n_done: dict[str, int] = {}
        self.errors: list[str] = []
        ids = [row[0] for row in walk.rows("SELECT id::text FROM memory_units ORDER BY id")]
        random.Random(seed).shuffle(ids)
        works = (self._delete, self._edit, self._invalidate, self._by_sql, self._by_rcll, self._touch)
        self._shares = {work: ids[number :: len(works)] for number, work in enumerate(works)}
        self._threads = [threading.Thread(target=self._work, args=(work,)) for work in works]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self, work: Any) -> None:
        rnd = random.Random(f"{self._seed} {work.__name__}")
        with self._walk.database.connect(application_name=work.__name__) as conn:
            for unit_id in self._shares[work][:400]:
                if self._stop.wait(rnd.uniform(0, 0.03)):
                    return
                try:
                    work(conn, unit_id, rnd)
                except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
                    self.errors.append(f"{work.__name__}: {error!r}")
                self.n_done[work.__name__] = self.n_done.get(work.__name__, 0) + 1

    def _delete(self, conn: Any, unit_id: str, _: random.Random) -> None:
        conn.execute("DELETE FROM memory_units WHERE id = %s", [unit_id])

    def _edit(self, conn: Any, unit_id: str, rnd: random.Random) -> None:
        text = f"edited {rnd.random()}"
        conn.execute("UPDATE memory_units SET text = %s, updated_at = now() WHERE id = %s", [text, unit_id])

    def _invalidate(self, conn: Any, unit_id: str, rnd: random.Random) -> None:
        """Into the archive and, mostly, back, as Hindsight moves units."""
        columns = "id, bank_id, document_id, text, event_date, fact_type, tags, room, hall, layer"
        tables = ["memory_units", "invalidated_memory_units"]
        for source, target in [tables, tables[::-1]][: 1 + (rnd.random() < 0.8)]:
            with conn.transaction():
                copy = f"INSERT INTO {target} ({columns}) SELECT {columns} FROM {source} WHERE id = %s"
                conn.execute(copy, [unit_id])
                conn.execute(f"DELETE FROM {source} WHERE id = %s", [unit_id])
            time.sleep(rnd.uniform(0, 0.02))

    def _by_sql(self, conn: Any, unit_id: str, _: random.Random) -> None:
        conn.execute("UPDATE memory_units SET room = 'somebody' WHERE id = %s", [unit_id])
        self.people[unit_id] = "somebody"

    def _by_rcll(self, conn: Any, unit_id: str, rnd: random.Random) -> None:
        room = rnd.choice(["general", "hr"])
        set_explicit(conn, self._walk.tenant, [unit_id], room=room)
        self.people[unit_id] = room

    def _touch(self, conn: Any, _: str, rnd: random.Random) -> None:
        """Ten other columns in one transaction, in any order, as the server does after a recall."""
        with conn.transaction():
            for other in rnd.sample(self._shares[self._touch], 10):
                conn.execute("UPDATE memory_units SET mentioned_at = now() WHERE id = %s", [other])
