"""Patience for DDL beside a live server: short waits for locks, many tries, and a name for who is in the way.

A statement that waits for an exclusive lock makes everybody behind it wait too, readers included. So each try
gives up after LOCK_TIMEOUT_MS, and the pauses in between let the others through.
"""

import random
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from psycopg import errors

from rcll.errors import Transient
from rcll.progress import notice
from rcll.store.connect import Connection, Database
from rcll.store.sql import query

#: Readers of a live Hindsight waited at most as long as this, measured with 50 to 100.
LOCK_TIMEOUT_MS = 75
#: Pause between tries in seconds, drawn at random so that two of us do not keep meeting.
PAUSE = (0.1, 0.5)
PATIENCE = 60.0

LOCKED = (errors.LockNotAvailable, errors.DeadlockDetected)
_T = TypeVar("_T")


def try_patiently(database: Database, schema: str, attempt: Callable[[], _T], *, patience: float = PATIENCE) -> _T:
    """Repeat a whole transaction until it gets its locks.

    Args:
        database: for a second connection that looks who is in the way.
        schema: whose migration lock the attempt takes; by that lock it is found among the backends.
        attempt: one transaction that begins with :func:`lock_schema`; called again from its beginning.
        patience: seconds after which the next failure is the last.

    Raises:
        Transient: no luck within the patience; the message names who held the lock, and since when.
    """
    deadline = time.monotonic() + patience
    try:
        return attempt()
    except LOCKED:
        pass  # from now on a second connection looks who is in the way
    told = ""
    with database.connect() as watcher, ThreadPoolExecutor(1) as pool:
        while True:
            is_last = time.monotonic() >= deadline
            next_try = pool.submit(attempt)
            seen = _watch(watcher, schema, next_try)
            try:
                return next_try.result()
            except LOCKED:
                if is_last:
                    raise Transient(
                        f"a lock was not to be had in {patience:.0f} s; {seen or 'its holder is gone by now'}; "
                        f"expected a moment without long transactions; run again, or end that session"
                    ) from None
            if seen and seen != told:
                notice(f"waiting up to {patience:.0f} s for a lock on schema '{schema}', {seen}")
                told = seen
            time.sleep(random.uniform(*PAUSE))  # noqa: S311 - jitter, no secret


def lock_schema(conn: Connection, schema: str) -> None:
    """Inside a transaction: keep other migrators of the schema out, and wait for locks only briefly."""
    conn.execute(query("lock_schema"), {"schema": schema, "milliseconds": LOCK_TIMEOUT_MS})


def _watch(watcher: Connection, schema: str, attempt: Future[Any]) -> str:
    """Who blocks the migration while the attempt lasts, as last seen; empty where nobody was."""
    seen = ""
    while not attempt.done():
        rows = watcher.execute(query("blockers"), {"schema": schema}).fetchall()
        if rows:
            seen = ", ".join(_who(*row) for row in rows[:3])
        time.sleep(LOCK_TIMEOUT_MS / 10_000)
    return seen


def _who(pid: int, name: str, since: Any) -> str:
    return f"held by pid {pid} '{name}'" + (f" since {since:%Y-%m-%d %H:%M:%S %Z}" if since else "")
