"""Files the units of legacy banks of millions of units, beside a live server, for as long as that takes.

Ranges of heap pages are read and classified side by side, a few ahead of the one writer of the table, which writes
them in page order, each in a task of its own with its own commits. Whatever is written is passed over by the next
backfill, so it may be killed at any moment. Closets and tunnels are left to the next reorganize.
"""

import time
from collections import deque
from collections.abc import Generator
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from prefect import flow
from pydantic import Field
from upath import UPath

from flows.artifacts import publish
from flows.engine import HOOKS, choose_runner, finished, flow_run_id
from flows.meter import Meter, metered
from flows.steps import file_missed, file_pages, load, migrate_schema
from flows.workers import begin
from rcll.errors import Stopped
from rcll.pauses import PauseWindow
from rcll.store.extract import count_pages
from rcll.taxonomy import load_taxonomy
from rcll.walk.backfill import Estimate, Totals, estimate, page_ranges
from rcll.walk.labels import labelling_hash
from rcll.walk.place import Place, open_place, open_places, places_of
from rcll.walk.runs import OpenRun, recorded_run

#: Ranges that are computed before the writer asks for them: enough that it never waits, few enough for the disk.
AHEAD = 4


@dataclass(frozen=True, slots=True)
class Options:
    """What one backfill was asked to do; recorded with the run."""

    banks: list[str] | None
    rate: float | None
    pauses: list[str] | None
    pages: int


@flow(name="backfill", task_runner=choose_runner(), **HOOKS)
def backfill(
    banks: list[str] | None = None,
    schemas: list[str] | None = None,
    rate: Annotated[float | None, Field(gt=0)] = None,
    pauses: list[str] | None = None,
    pages: Annotated[int, Field(ge=1)] = 10_000,
    dry_run: bool = False,
) -> list[dict[str, Any]]:
    """File every unit of large legacy banks, range of pages by range of pages.

    Args:
        banks: Banks to work on; empty means all.
        schemas: PostgreSQL schemas (tenants); empty means all.
        rate: Units written in a second at most.
        pauses: Times of day in which nothing is written, e.g. "22:00-06:00".
        pages: Heap pages of one task; 10,000 are some 80,000 units.
        dry_run: Only the estimate; nothing in the database changes.

    Returns:
        One summary per tenant; ``status`` is done, partial (stopped, or rows locked all the while) or estimated.
    """
    for window in pauses or ():
        PauseWindow.parse(window)
    options = Options(banks or None, rate, pauses or None, pages)
    with open_places(schemas or ()) as places:
        chosen = places_of(places, banks)
        begin(chosen, dry_run=dry_run)
        return finished([_backfill_tenant(place, options, held, dry_run=dry_run) for place, held in chosen])


def _backfill_tenant(place: Place, options: Options, banks: list[str] | None, *, dry_run: bool) -> dict[str, Any]:
    schema = place.tenant.schema
    found = {"schema": schema, "kind": place.tenant.kind}
    if dry_run:
        return found | {"status": "estimated", "estimate": asdict(estimate(place, banks, options.rate))}
    applied = migrate_schema(schema)
    asked = asdict(options) | {"banks": banks, "flow_run": flow_run_id()}
    with open_place(schema) as migrated, recorded_run(migrated, "backfill", banks, asked) as run:
        guess = estimate(migrated, banks, options.rate or migrated.settings.rate)
        run.summary["estimate"] = asdict(guess)
        try:
            _file_table(migrated, options, banks, run, guess)
        except Stopped as stopped:
            run.status = "partial"
            run.summary["stopped"] = str(stopped)
    summary = found | {"status": run.status, "run_id": str(run.run_id), "migrations": applied} | run.summary
    publish("backfill", migrated, summary)
    return summary


def _file_table(place: Place, options: Options, banks: list[str] | None, run: OpenRun, guess: Estimate) -> None:
    schema, settings = place.tenant.schema, place.settings
    fingerprint = labelling_hash(load_taxonomy(settings.taxonomy), use_layers=settings.layers)
    began, totals = time.monotonic(), Totals()
    with metered(Meter("backfill", guess.n_unfiled)) as meter:
        try:
            with closing(_parts_in_order(place, banks, options.pages, run.folder)) as planned:
                for parts in planned:
                    loaded = load(schema, parts, run.lease, fingerprint, options.rate, options.pauses)
                    totals.add(parts, loaded)
                    meter.advance_to(totals.n_done)
                    for part in parts:
                        part.unlink()
        finally:
            run.summary.update(totals.as_dict(time.monotonic() - began))
    run.status = "partial" if totals.skipped["locked"] else "done"


def _parts_in_order(place: Place, banks: list[str] | None, pages: int, folder: UPath) -> Generator[list[UPath]]:
    """Plan parts of the table in page order, AHEAD of them under way; last what no range met."""
    schema = place.tenant.schema
    with place.database.connect() as conn:
        ranges = page_ranges(count_pages(conn, place.tenant), pages)
    under_way: deque[Any] = deque()
    try:
        for each in ranges:
            under_way.append(file_pages.submit(schema, banks, each, folder))
            if len(under_way) > AHEAD:
                yield [under_way.popleft().result()]
        while under_way:
            yield [under_way.popleft().result()]
        yield file_missed(schema, banks, folder)
    finally:
        for future in under_way:  # a stop takes the folder away; who still writes there must be done first
            future.wait()
