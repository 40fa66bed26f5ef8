"""What a load costs the server: CPU, WAL, HOT share, growth; and what live traffic feels of it."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil
import psycopg

from bench.load_ways import Job


@dataclass
class Cost:
    """One load, measured; ``ledger_mb`` is the part of the WAL that ledger and undo log of rcll take."""

    seconds: float = 0.0
    cpu: float = 0.0
    wal_mb: float = 0.0
    ledger_mb: float = 0.0
    hot: float = 0.0
    growth: float = 0.0
    wrong: int = 0
    deadlocks: int = 0
    traffic: dict[str, Any] = field(default_factory=dict)


def measure(job: Job, way: Callable[[Job], None], postmaster: psutil.Process) -> Cost:
    """Run one way on a quiet server and weigh it; CPU is that of all server processes together."""
    cost = Cost()
    with job.database.connect() as conn:
        _warm(conn)
        conn.execute("CHECKPOINT")
        size, wal, updated = _size(conn), _wal(conn), _updates(conn)
        cpu, start = _cpu(postmaster), time.monotonic()
        way(job)
        cost.seconds = time.monotonic() - start
        time.sleep(0.5)  # backends of closed connections end, their counts are flushed
        cost.cpu = _cpu(postmaster) - cpu
        cost.wal_mb = (_wal(conn) - wal) / 1e6
        cost.ledger_mb = _ledger_wal(conn, wal) / 1e6
        n_updated, n_hot = (after - before for after, before in zip(_updates(conn), updated, strict=True))
        cost.hot = n_hot / n_updated if n_updated else 0.0
        cost.growth = _size(conn) / size - 1
        cost.wrong = _wrong(conn, job)
    return cost


def disturb(job: Job, way: Callable[[Job], None], idle_seconds: float) -> Cost:
    """Run one way beside live traffic and note what the traffic feels, before and meanwhile."""
    cost = Cost()
    with _traffic(job.database.url) as traffic:
        time.sleep(idle_seconds)
        traffic.say("load")
        start = time.monotonic()
        way(job)
        cost.seconds = time.monotonic() - start
        time.sleep(max(0.0, idle_seconds - cost.seconds))
        cost.traffic = traffic.end()
    cost.deadlocks = job.deadlocks + cost.traffic.pop("deadlocks")
    return cost


class _Traffic:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def say(self, phase: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(phase + "\n")
        self._process.stdin.flush()

    def end(self) -> dict[str, Any]:
        answer, _ = self._process.communicate("end\n", timeout=60)
        return json.loads(answer)


@contextmanager
def _traffic(url: str) -> Generator[_Traffic]:
    command = [sys.executable, "-m", "bench.load_traffic", url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield _Traffic(process)


def _cpu(postmaster: psutil.Process) -> float:
    """Seconds that the server's processes have worked, those that ended included."""
    total = sum(postmaster.cpu_times()[:4])
    for child in postmaster.children():
        try:
            total += sum(child.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue  # ended since; its time is its parent's now
    return total


def _wal(conn: psycopg.Connection) -> int:
    return conn.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint").fetchone()[0]


def _warm(conn: psycopg.Connection) -> None:
    """Read the table and its indexes once, as a live server has."""
    conn.execute("CREATE EXTENSION IF NOT EXISTS pg_prewarm")
    conn.execute(
        "SELECT pg_prewarm(oid) FROM pg_class WHERE oid = 'memory_units'::regclass OR oid IN ("
        "  SELECT indexrelid FROM pg_index WHERE indrelid = 'memory_units'::regclass)"
    )


def _ledger_wal(conn: psycopg.Connection, start: int) -> int:
    """WAL bytes since then whose first block belongs to one of rcll's tables or their indexes."""
    conn.execute("CREATE EXTENSION IF NOT EXISTS pg_walinspect")
    return conn.execute(
        r"""
        SELECT coalesce(sum(r.record_length), 0)::bigint
        FROM pg_get_wal_records_info('0/0'::pg_lsn + %s::numeric, pg_current_wal_lsn()) r
        JOIN pg_class c ON pg_relation_filenode(c.oid) = substring(r.block_ref FROM 'rel \d+/\d+/(\d+)')::oid
        WHERE c.relname LIKE 'rcll%%'
        """,
        [start],
    ).fetchone()[0]


def _size(conn: psycopg.Connection) -> int:
    return conn.execute("SELECT pg_relation_size('memory_units')").fetchone()[0]


def _updates(conn: psycopg.Connection) -> tuple[int, int]:
    conn.execute("SELECT pg_stat_clear_snapshot()")
    return conn.execute(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'memory_units'"
    ).fetchone()


def _wrong(conn: psycopg.Connection, job: Job) -> int:
    stored = {row[3]: row[:3] for row in conn.execute("SELECT room, hall, layer, id::text FROM memory_units")}
    return sum(stored.get(row[3]) != row[:3] for row in job.rows())
