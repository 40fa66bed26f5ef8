"""Writes planned labels back like a guest: short transactions, one tuple of a page at a time, nobody waits.

A plain UPDATE of a packed table inserts every row again into every index, the vector graphs among them. Here
pages are gone through in rounds (stages.rounds), so that most new versions stay on their page. One page-ordered
writer serves all banks of the table: pages mix banks, and a pass for each would read them again and again.
"""

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl
from upath import UPath

from rcll.frames import CHANGES
from rcll.progress import report
from rcll.stages.plan import MAX_LABEL_CHARS, layer_number
from rcll.stages.rounds import RoundParams, page_rounds
from rcll.store.catalog import Tenant
from rcll.store.connect import Connection, Database
from rcll.store.lease import Lease
from rcll.store.oneline import one_line_errors
from rcll.store.pace import LoadLimits, Pace
from rcll.store.parts import read_part
from rcll.store.places import locate_units
from rcll.store.vacuum import vacuum_politely
from rcll.store.write import OUTCOMES, Stamp, Writer

#: Passes over rows that somebody else had locked.
PASSES = 5
#: Reasons for which a planned change is left out.
_SKIPS = ("gone", "edited", "relabelled", "locked", "too long", "refused")
_NO_LIMITS = LoadLimits()


@dataclass(frozen=True, slots=True)
class Loaded:
    """What became of the planned changes.

    ``n_written`` units were updated, ``n_recorded`` got or changed a ledger row only; ``skipped`` counts
    the others by reason: gone, edited, relabelled, locked, too long (for the column), refused (by a constraint or
    a trigger of the table's owner). ``hot_share`` is the share of the updates that touched no index, None where
    there were none; ``notes`` say in a line each what made the load slower than it could be; ``waited`` maps what the
    gate waited for to seconds.
    """

    n_written: int
    n_recorded: int
    skipped: dict[str, int]
    hot_share: float | None = None
    notes: tuple[str, ...] = ()
    waited: dict[str, float] = field(default_factory=dict[str, float])


def apply_changes(
    database: Database,
    tenant: Tenant,
    changes: pl.DataFrame,
    lease: Lease,
    *,
    taxonomy_hash: str,
    limits: LoadLimits = _NO_LIMITS,
    gate: Callable[[], None] | None = None,
) -> Loaded:
    """Write changes (frames.CHANGES, a unit once) to units, ledger and undo log.

    ``gate`` is passed before every transaction: it waits as long as nothing may be written, or raises.

    Raises:
        Busy: the lease on one of the banks was lost; transactions that were committed stay.
        Transient: connection or server were lost, or the server's disk is full; run again.
        DatabaseError: the role may not write.
    """
    rows = changes.with_columns(stored_layer=_stored_layer(tenant))
    stamp = Stamp(taxonomy_hash=taxonomy_hash, is_held=False)
    return write_labels(database, tenant, rows, lease, stamp, limits=limits, gate=gate)


def write_labels(
    database: Database,
    tenant: Tenant,
    rows: pl.DataFrame,
    lease: Lease,
    stamp: Stamp,
    *,
    limits: LoadLimits = _NO_LIMITS,
    gate: Callable[[], None] | None = None,
) -> Loaded:
    """Write labels (store.write.WRITES, a unit once); see :func:`apply_changes`."""
    fitting = rows.filter(_fits(tenant))
    outcomes = Counter({"too long": rows.height - fitting.height})
    with one_line_errors("writing labels"), database.connect() as conn:
        writer = Writer(conn, tenant, lease, stamp, Pace(limits), gate)
        load = _Load(database, conn, tenant, writer, limits)
        outcomes += load.write(fitting.filter("writes_unit"))
        outcomes += load.record(fitting.filter(~pl.col("writes_unit")))
        watch = load.writer.watch
    skipped = {reason: outcomes[reason] for reason in sorted(_SKIPS) if outcomes[reason]}
    notes = tuple(filter(None, [watch.note()]))
    n_recorded = outcomes["recorded"] + outcomes["already"]
    return Loaded(outcomes["written"], n_recorded, skipped, watch.hot_share, notes)


@dataclass(frozen=True, slots=True)
class _Load:
    database: Database
    conn: Connection
    tenant: Tenant
    writer: Writer
    limits: LoadLimits

    def write(self, rows: pl.DataFrame) -> Counter[str]:
        """Write units, and those that were locked again, up to PASSES times; count the outcomes."""
        outcomes: Counter[str] = Counter()
        todo = rows
        for turn in range(PASSES):
            found = pl.concat([pl.DataFrame(schema=OUTCOMES), *self._pass(todo, rows.height)])
            is_locked = pl.col("outcome") == "locked"
            outcomes += Counter(found.filter(~is_locked)["outcome"].to_list())
            todo = todo.join(found.filter(is_locked), on="unit_id", how="semi")
            if todo.is_empty():
                break
            if turn < PASSES - 1:
                time.sleep(random.uniform(0.5, 1.5) * 0.2 * (turn + 1))  # noqa: S311 - jitter
        outcomes["locked"] = todo.height
        return outcomes

    def record(self, rows: pl.DataFrame) -> Counter[str]:
        """Write ledger rows alone; count the outcomes."""
        outcomes: Counter[str] = Counter()
        for found in self.writer.record(rows):
            outcomes += Counter(found["outcome"].to_list())
            report("record", outcomes.total(), rows.height)
        outcomes["gone"] += rows.height - outcomes.total()
        return outcomes

    def _pass(self, rows: pl.DataFrame, n_total: int) -> Iterator[pl.DataFrame]:
        """Go through the pages once, range by range, and yield what came of every row."""
        rounds = page_rounds(locate_units(self.conn, self.tenant, rows["unit_id"].to_list()), RoundParams())
        yield _as_gone(rows, rounds)
        done = n_total - rounds.height
        planned = rounds.join(rows, on="unit_id", how="left", maintain_order="left")
        for pages in planned.partition_by("page_range", maintain_order=True):
            can_be_hot = self.writer.watch.can_be_hot()
            for leaves_page, part in _transactions(pages, can_be_hot=can_be_hot):
                for found in self.writer.write(part, leaves_page=leaves_page):
                    done += found.height
                    report("load", done, n_total)
                    yield found
            if self.limits.vacuum and can_be_hot:
                vacuum_politely(self.database, self.tenant)


def _as_gone(rows: pl.DataFrame, rounds: pl.DataFrame) -> pl.DataFrame:
    missing = rows.join(rounds, on="unit_id", how="anti")
    return missing.select("unit_id", outcome=pl.lit("gone"))


def _transactions(pages: pl.DataFrame, *, can_be_hot: bool) -> Iterator[tuple[bool, pl.DataFrame]]:
    """Rows whose order allows any cut into transactions, and whether they have to leave their page.

    Where nothing can be HOT, the second best way is page after page: each is written and logged once.
    """
    if not can_be_hot:
        yield True, pages.sort("block", maintain_order=True)
        return
    for part in pages.partition_by("rank", maintain_order=True):
        yield part["rank"][0] == 0, part


def _stored_layer(tenant: Tenant) -> pl.Expr:
    """The layer as the column stores it; a spelling that already means the same, or no layer, stays."""
    number = pl.col("layer").cast(pl.String)
    spelled = pl.format("L{}", number) if tenant.layer_type == "text" else number
    is_same = pl.col("layer").is_null() | (layer_number(pl.col("old_layer")) == number).fill_null(value=False)
    return pl.when(is_same).then(pl.col("old_layer")).otherwise(spelled)


def _fits(tenant: Tenant) -> pl.Expr:
    """Whether room and hall fit their columns and the ledger's; a fork's columns may be narrower."""
    widths = [re.search(r"\((\d+)\)", ddl) for ddl in tenant.label_columns[:2]]
    limits = [min(MAX_LABEL_CHARS, int(width[1])) if width else MAX_LABEL_CHARS for width in widths]
    lengths = zip(("room", "hall"), limits, strict=True)
    return pl.all_horizontal([pl.col(name).str.len_chars().fill_null(0) <= limit for name, limit in lengths])


def read_changes(paths: Sequence[UPath]) -> pl.DataFrame:
    """Load the changes to write from plan parts, sorted by unit_id."""
    frames = [read_part(path).filter("is_changed").select(CHANGES.names()) for path in paths]
    return pl.concat(frames).sort("unit_id") if frames else pl.DataFrame(schema=CHANGES)
