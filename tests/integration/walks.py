"""The label half of a walk in small: one proposal for all units, planned and applied on a real database."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rcll.frames import LABELS, UNITS
from rcll.settings import Settings
from rcll.stages.plan import PlanParams, needs_text, plan_labels
from rcll.store.catalog import Tenant, read_tenants
from rcll.store.connect import Database
from rcll.store.extract import extract_units
from rcll.store.lease import hold_banks
from rcll.store.ledger import finish_run, start_run
from rcll.store.load import Loaded, LoadLimits, apply_changes, read_changes
from rcll.store.migrate import migrate
from rcll.walk.place import Place

BANKS = ("alice", "bob")
NO_LIMITS = LoadLimits()


def migrated(database: Database) -> Tenant:
    """Bring the only tenant of a database up to date."""
    with database.connect() as conn:
        (tenant,) = read_tenants(conn)
        migrate(database, tenant)
        (tenant,) = read_tenants(conn)
    return tenant


@dataclass
class Walk:
    """A database, and where its plans lie."""

    database: Database
    tenant: Tenant
    folder: Path
    n_plans: int = 0

    @property
    def place(self) -> Place:
        """As the commands see it."""
        return Place(Settings(home=self.folder), self.database, self.tenant)

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Ask the database."""
        with self.database.connect() as conn:
            return conn.execute(statement, values or None).fetchall()

    def do(self, statement: str, *values: Any) -> None:
        """Change the database, as somebody else would."""
        with self.database.connect() as conn:
            conn.execute(statement, values or None)

    def plan(self, room: str = "auth", *, rules: str = "T", banks: list[str] | None = None) -> pl.DataFrame:
        """Read everything and propose one room, hall event and layer 2 to what has to be classified."""
        self.n_plans += 1
        folder = self.folder / f"plan-{self.n_plans}"
        parts = extract_units(self.database, self.tenant, banks=banks, taxonomy_hash=rules, folder=folder)
        units = pl.concat([pl.DataFrame(schema=UNITS), *(pl.read_parquet(part) for part in parts)])
        labels = units.filter(needs_text(rules)).select(
            "unit_id",
            room=pl.lit(room),
            hall=pl.lit("event"),
            layer=pl.lit(2, pl.Int16),
            room_rule=pl.lit(f"{room}-rule"),
            hall_rule=pl.lit("event-rule"),
            **dict.fromkeys(("layer_rule", "room_tier", "hall_tier", "language"), pl.lit(None, pl.String)),
        )
        plan_labels(units, labels.select(LABELS.names()), PlanParams(rules)).write_parquet(folder / "plan.parquet")
        return read_changes([folder / "plan.parquet"])

    def apply(
        self,
        changes: pl.DataFrame,
        *,
        rules: str = "T",
        limits: LoadLimits = NO_LIMITS,
        gate: Callable[[], object] | None = None,
    ) -> tuple[str, Loaded]:
        """Write the changes, each transaction through the gate; returns the run's id and what came of it."""
        with self.database.connect() as conn:
            run_id = start_run(conn, self.tenant, kind="reorganize", taxonomy_hash=rules, parameters={})
        banks = sorted({*BANKS, *changes["bank_id"]})
        with hold_banks(self.database, self.tenant, banks, run_id) as lease:
            loaded = apply_changes(
                self.database, self.tenant, changes, lease, taxonomy_hash=rules, limits=limits, gate=gate
            )
        with self.database.connect() as conn:
            summary = {"loaded": {"n_written": loaded.n_written}}
            finish_run(conn, self.tenant, run_id, status="done", summary=summary)
        return str(run_id), loaded

    def run(self, room: str = "auth", *, rules: str = "T") -> tuple[str, Loaded]:
        """Plan and apply."""
        return self.apply(self.plan(room, rules=rules), rules=rules)

    def labels(self) -> dict[str, tuple[Any, ...]]:
        """(room, hall, layer as text) of every unit."""
        found = self.rows("SELECT id::text, room, hall, layer::text FROM memory_units")
        return {row[0]: row[1:] for row in found}
