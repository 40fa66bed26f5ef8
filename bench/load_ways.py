"""Ways to write labels back, all from the same plan: three that people use, and ours."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import psycopg

from rcll.frames import CHANGES
from rcll.store.catalog import read_tenants
from rcll.store.connect import Database
from rcll.store.lease import hold_banks
from rcll.store.ledger import start_run
from rcll.store.load import Loaded, LoadLimits, apply_changes

_ROOMS = ("auth", "pipeline", "infrastructure", "deployment", "schema", "api", "ui", "tax", "hr", "legal")
_HALLS = ("warning", "decision", "procedure", "event", "preference", "discovery", "fact")
#: As long as a real fingerprint of rules: the ledger stores it with every row.
RULES = "0123456789abcdef" * 2
_UPDATE = "UPDATE memory_units SET room = %s, hall = %s, layer = %s WHERE id = %s"
_UNNEST = """
    UPDATE memory_units m SET room = s.room, hall = s.hall, layer = s.layer
    FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::int[]) s(id, room, hall, layer) WHERE m.id = s.id
"""
_VECTOR_INDEXES = """
    SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'memory_units' AND indexdef LIKE '%USING hnsw%'
"""


@dataclass
class Job:
    """A database to label and what to write, units in the order of the heap."""

    database: Database
    changes: pl.DataFrame
    deadlocks: int = 0
    gave_up: bool = False
    loaded: Loaded | None = None
    limits: LoadLimits = field(default_factory=LoadLimits)

    def rows(self) -> list[tuple[str, str, int, str]]:
        """(room, hall, layer, unit_id) of every unit."""
        return self.changes.select("room", "hall", "layer", "unit_id").rows()

    def retry(self, write: Callable[[], object]) -> None:
        """Repeat what a deadlock undid, as these ways must when the server is live; five times at most."""
        for _ in range(5):
            try:
                write()
            except psycopg.errors.DeadlockDetected:
                self.deadlocks += 1
            else:
                return
        self.gave_up = True


def plan_everything(database: Database, *, seed: int = 5) -> pl.DataFrame:
    """A label for every unit, as frames.CHANGES, in heap order: a sequential backfill reads the table like this."""
    with database.connect() as conn:
        rows = conn.execute(
            "SELECT id::text, bank_id, left(encode(sha256(convert_to(text, 'UTF8')), 'hex'), 32)"
            " FROM memory_units ORDER BY ctid"
        ).fetchall()
    units = pl.DataFrame(rows, schema=["unit_id", "bank_id", "text_hash"], orient="row")
    rng = np.random.default_rng(seed)
    given = {
        "old_room": "general",
        "old_hall": "fact",
        "old_layer": "2",
        "layer": 2,
        **{f"{name}_source": "rule" for name in ("room", "hall", "layer")},
        "room_rule": "some-rule",
        "hall_rule": "other-rule",
        "language": "en",
        "writes_unit": True,
        "reason": "new",
    }
    labelled = units.with_columns(
        room=pl.Series(rng.choice(_ROOMS, len(units))),
        hall=pl.Series(rng.choice(_HALLS, len(units))),
        **{name: pl.lit(value) for name, value in given.items()},
        **{name: pl.lit(None) for name in CHANGES.names() if name in ("layer_rule", "room_tier", "hall_tier")},
    )
    return labelled.select(pl.col(name).cast(dtype) for name, dtype in CHANGES.items())


def executemany(job: Job) -> None:
    """One executemany, all in one transaction."""
    with job.database.connect() as conn, conn.cursor() as cursor:
        rows = job.rows()

        def write() -> None:
            with conn.transaction():
                cursor.executemany(_UPDATE, rows)

        job.retry(write)


def unnest(job: Job) -> None:
    """UPDATE … FROM unnest, 5,000 rows a transaction: what most people settle on."""
    with job.database.connect() as conn:
        for batch in job.changes.iter_slices(5_000):
            values = [batch[name].to_list() for name in ("unit_id", "room", "hall", "layer")]
            job.retry(lambda values=values: conn.execute(_UNNEST, values))


def rebuild(job: Job) -> None:
    """Drop the vector indexes, unnest, build them again; recall is blind meanwhile."""
    with job.database.connect() as conn:
        indexes = conn.execute(_VECTOR_INDEXES).fetchall()
        for name, _ in indexes:
            conn.execute(f'DROP INDEX "{name}"')
        unnest(job)
        for _, definition in indexes:
            conn.execute(definition.replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY"))


def page_phased(job: Job) -> None:
    """The loader of rcll, with lease, ledger and undo log."""
    with job.database.connect() as conn:
        (tenant,) = read_tenants(conn)
        run_id = start_run(conn, tenant, kind="bench", taxonomy_hash=RULES, parameters={})
    banks = job.changes["bank_id"].unique().to_list()
    with hold_banks(job.database, tenant, banks, run_id) as lease:
        job.loaded = apply_changes(job.database, tenant, job.changes, lease, taxonomy_hash=RULES, limits=job.limits)


def page_phased_vacuum(job: Job) -> None:
    """The same with a VACUUM after each range of pages."""
    job.limits = LoadLimits(vacuum=True)
    page_phased(job)


WAYS: dict[str, Callable[[Job], None]] = {
    "executemany": executemany,
    "unnest 5k": unnest,
    "drop, unnest, rebuild HNSW": rebuild,
    "rcll": page_phased,
    "rcll with VACUUM": page_phased_vacuum,
}
