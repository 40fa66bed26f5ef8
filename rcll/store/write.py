"""One write transaction of the loader: lease, locks, labels, ledger and undo log together, or nothing.

Killed inside one, PostgreSQL forgets it; killed between two, the next run finds the rest.
"""

import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import polars as pl
import psycopg

from rcll.errors import Transient
from rcll.frames import CHANGES
from rcll.progress import notice
from rcll.store.catalog import Tenant
from rcll.store.connect import Connection
from rcll.store.horizon import HotWatch
from rcll.store.lease import Lease
from rcll.store.oneline import said
from rcll.store.pace import Pace
from rcll.store.places import units_name
from rcll.store.sql import query

#: What the loader writes: a change with the layer spelled as the column stores it.
WRITES = pl.Schema({**CHANGES, "stored_layer": pl.String})
#: What became of a unit: written, already, gone, edited, relabelled, locked, refused, recorded.
OUTCOMES = pl.Schema({"unit_id": pl.String, "outcome": pl.String})

#: Tries of one transaction that meets deadlocks, lock timeouts or statement timeouts, with growing pauses:
#: about a minute in all.
TRIES = 10
_INPUT = (
    *("unit_id", "bank_id", "text_hash", "old_room", "old_hall", "old_layer", "room", "hall", "layer", "stored_layer"),
    *("room_source", "hall_source", "layer_source", "room_rule", "hall_rule", "layer_rule"),
    *("room_tier", "hall_tier", "language"),
)
_RETRYABLE = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.LockNotAvailable,
    psycopg.errors.SerializationFailure,
    psycopg.errors.UniqueViolation,  # somebody filed the same unit at the same moment
    psycopg.errors.QueryCanceled,  # statement_timeout: half as many rows the next time
)
#: A constraint, a column's type or a trigger of the owner's does not take one of the rows; the others can be written.
_REFUSALS = (
    psycopg.errors.CheckViolation,
    psycopg.errors.ForeignKeyViolation,
    psycopg.errors.NotNullViolation,
    psycopg.errors.DataError,
    psycopg.errors.RaiseException,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What is the same for every row of a load."""

    taxonomy_hash: str | None
    """Rules by which the labels were made; None lets the next run decide anew."""
    is_held: bool
    """Whether later runs leave the units alone until text or rules change."""


class Writer:
    """Runs the load queries over rows, a transaction at a time, as large and as fast as the pace allows."""

    def __init__(
        self,
        conn: Connection,
        tenant: Tenant,
        lease: Lease,
        stamp: Stamp,
        pace: Pace,
        gate: Callable[[], None] | None = None,
    ) -> None:
        self.watch = HotWatch(conn, tenant)
        self._gate = gate
        self._has_refused = False
        self._conn, self._tenant, self._lease, self._stamp, self._pace = conn, tenant, lease, stamp, pace
        self._units = {"units": units_name(conn, tenant)}
        names = tenant.names()
        fragments = {name: query(name) for name in ("ledger_columns", "ledger_values", "ledger_changes")}
        fragments["judged_rows"] = query("judged_rows", **names, planned_rows=query("planned_rows"))
        self._statements = {
            name: query(name, **names, **fragments) for name in ("lock_units", "apply_labels", "record_labels")
        }

    def write(self, rows: pl.DataFrame, *, leaves_page: bool) -> Generator[pl.DataFrame]:
        """Write labels (WRITES); yield OUTCOMES of each transaction, with pauses as the pace wants them."""
        return self._run("apply_labels", rows, leaves_page=leaves_page)

    def record(self, rows: pl.DataFrame) -> Generator[pl.DataFrame]:
        """File labels (WRITES) in the ledger that the units bear already; yield OUTCOMES."""
        return self._run("record_labels", rows, leaves_page=False)

    def _run(self, name: str, rows: pl.DataFrame, *, leaves_page: bool) -> Generator[pl.DataFrame]:
        start = failures = 0
        most = rows.height
        while start < rows.height:
            batch = rows.slice(start, min(most, self._pace.rows(leaves_page=leaves_page)))
            if self._gate:
                self._gate()
            began = time.monotonic()
            try:
                found = self._commit(name, batch, leaves_page=leaves_page)
            except _RETRYABLE as error:
                failures += 1
                self._pace.shrink(leaves_page=leaves_page)
                self._back_off(failures, batch.height, error)
                continue
            except _REFUSALS as error:
                if batch.height > 1:
                    most = batch.height // 2  # down to the row that is refused
                    continue
                found = batch.select("unit_id", outcome=pl.lit("refused"))
                self._tell_refusal(batch["unit_id"][0], said(error))
            seconds = time.monotonic() - began
            start, failures, most = start + batch.height, 0, 2 * most
            self._pace.learn(batch.height, seconds, leaves_page=leaves_page)
            yield found
            time.sleep(self._pace.pause(batch.height, seconds))

    def _commit(self, name: str, batch: pl.DataFrame, *, leaves_page: bool) -> pl.DataFrame:
        unit_ids: list[str] = batch["unit_id"].to_list()
        with self._conn.transaction():
            before = self._conn.execute(query("begin_write"), self._units).fetchone()
            self._lease.check(self._conn, self._tenant, batch["bank_id"].unique().to_list())
            held = self._lock(unit_ids) if name == "apply_labels" else set(unit_ids)
            ours = batch if len(held) == len(unit_ids) else batch.filter(pl.col("unit_id").is_in(held))
            rows = self._conn.execute(self._statements[name], self._values(ours)).fetchall()
            after = self._conn.execute(query("count_updates"), self._units).fetchone()
        assert before is not None
        assert after is not None
        self.watch.count(after[0] - before[0], after[1] - before[1], leaves_page=leaves_page)
        outcomes = rows + (self._untold(unit_ids, held, rows) if name == "apply_labels" else [])
        return pl.DataFrame(outcomes, schema=OUTCOMES, orient="row")

    def _untold(self, unit_ids: list[str], held: set[str], told: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Outcomes of the units of a batch of which the server has told none."""
        left = sorted(set(unit_ids) - {unit_id for unit_id, _ in told})
        refused = [unit_id for unit_id in left if unit_id in held]
        if refused:
            self._tell_refusal(refused[0], "a trigger or a rule of the table kept its label as it was")
        return [(unit_id, "refused" if unit_id in held else "locked") for unit_id in left]

    def _tell_refusal(self, unit_id: str, why: str) -> None:
        if not self._has_refused:
            notice(f"unit {unit_id} is left out, and so are others that are refused: {why}")
        self._has_refused = True

    def _lock(self, unit_ids: list[str]) -> set[str]:
        rows = self._conn.execute(self._statements["lock_units"], {"unit_ids": unit_ids}).fetchall()
        return {unit_id for (unit_id,) in rows}

    def _values(self, batch: pl.DataFrame) -> dict[str, Any]:
        columns: dict[str, Any] = {name: batch[name].to_list() for name in _INPUT}
        stamp = {"taxonomy_hash": self._stamp.taxonomy_hash, "is_held": self._stamp.is_held}
        return columns | stamp | {"run_id": self._lease.run_id}

    def _back_off(self, failures: int, n_rows: int, error: psycopg.Error) -> None:
        if failures == TRIES:
            raise Transient(
                f"{n_rows} labels could not be written in {TRIES} tries ({type(error).__name__}); "
                f"what was committed before stays; run again"
            ) from error
        time.sleep(random.uniform(0.5, 1.5) * min(0.1 * 2**failures, 10.0))  # noqa: S311 - jitter
