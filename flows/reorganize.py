"""The main job: extract, classify, plan, load, then closets and tunnels, migration always first.

One code path: a dry run is the same walk stopped before anything is written. Between tasks travel names,
counts and Parquet paths, never rows and never an address.
"""

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from prefect import flow
from upath import UPath

from flows.artifacts import publish
from flows.engine import HOOKS, choose_runner, finished, flow_run_id
from flows.steps import condense, dig, extract, label, link, load, migrate_schema, renew, restore
from flows.workers import begin
from rcll.progress import report
from rcll.settings import load_settings
from rcll.store.explicit import Kind
from rcll.store.lease import Lease
from rcll.store.migrate import pending
from rcll.taxonomy import load_taxonomy
from rcll.walk.archive import give_back_orphans
from rcll.walk.closets import CondensedRoom, rooms_to_condense
from rcll.walk.labels import labelling_hash
from rcll.walk.making import Spent
from rcll.walk.place import Place, open_place, open_places, places_of
from rcll.walk.plans import check_plan, find_plans, new_plan_id, plan_folder, plan_parts, store_plan
from rcll.walk.runs import recorded_run
from rcll.walk.summary import frozen_hints, quality_limits, summarise_plan
from rcll.walk.tunnels import rooms_to_link

Stage = Literal["labels", "closets", "tunnels"]


@dataclass(frozen=True, slots=True)
class Options:
    """What one run was asked to do; recorded with the run."""

    banks: list[str] | None
    only: Stage | None
    dry_run: bool
    plan: str | None = None

    def wants(self, stage: Stage) -> bool:
        """Whether the stage takes part."""
        return self.only in (None, stage)


@dataclass(slots=True)
class Timings:
    """Seconds per stage, in the order in which the stages ran."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def of(self, stage: str) -> Generator[None]:
        """Time a block."""
        start = time.monotonic()
        yield
        self.seconds[stage] = round(time.monotonic() - start, 2)


@flow(name="reorganize", task_runner=choose_runner(), **HOOKS)
def reorganize(
    banks: list[str] | None = None,
    schemas: list[str] | None = None,
    only: Stage | None = None,
    dry_run: bool = False,
) -> list[dict[str, Any]]:
    """File every unit, condense oversized rooms, dig tunnels.

    Args:
        banks: Banks to work on; empty means all.
        schemas: PostgreSQL schemas (tenants); empty means all.
        only: One stage instead of all three.
        dry_run: Plan only; nothing in the database changes.

    Returns:
        One summary per tenant; ``status`` is done, partial or planned.
    """
    with open_places(schemas or ()) as places:
        chosen = places_of(places, banks or None)
        begin(chosen, dry_run=dry_run)
        return finished([_reorganize_tenant(place, Options(held, only, dry_run)) for place, held in chosen])


@flow(name="apply", task_runner=choose_runner(), **HOOKS)
def apply(plan_id: str) -> list[dict[str, Any]]:
    """Write what a stored plan says, and nothing else; what has changed since is skipped and counted.

    Args:
        plan_id: id that rcll plan printed.

    Returns:
        One summary per tenant, as that of :func:`reorganize`.
    """
    plans = find_plans(load_settings(), plan_id)
    with open_places([plan.fingerprint.schema for plan in plans]) as places:
        for place, plan in zip(places, plans, strict=True):
            check_plan(place, plan)
        begin([(place, plan.banks) for place, plan in zip(places, plans, strict=True)], dry_run=False)
        done = [
            _reorganize_tenant(place, Options(plan.banks, plan.only, dry_run=False, plan=plan.plan_id))
            for place, plan in zip(places, plans, strict=True)
        ]
        return finished(done)


def _reorganize_tenant(place: Place, options: Options) -> dict[str, Any]:
    walk = _plan_walk if options.dry_run else _write_walk
    summary = {"schema": place.tenant.schema, "kind": place.tenant.kind} | walk(place, options)
    publish("plan" if options.dry_run else "reorganize", place, summary)
    return summary


def _plan_walk(place: Place, options: Options) -> dict[str, Any]:
    plan_id = new_plan_id()
    folder = plan_folder(place.settings, plan_id, place.tenant.schema)
    with place.database.connect() as conn:
        waiting = [migration.name for migration in pending(conn, place.tenant)]
    summary = _walk(place, options, folder, lease=None)
    store_plan(place, plan_id, banks=options.banks, only=options.only)
    return {"status": "planned", "plan_id": plan_id, "pending_migrations": waiting} | summary


def _write_walk(place: Place, options: Options) -> dict[str, Any]:
    schema = place.tenant.schema
    applied = migrate_schema(schema)
    asked = asdict(options) | {"flow_run": flow_run_id()}
    with open_place(schema) as migrated, recorded_run(migrated, "reorganize", options.banks, asked) as run:
        run.summary.update(_walk(migrated, options, run.folder, lease=run.lease))
        run.status = "partial" if _left_undone(run.summary) else "done"
    return {"status": run.status, "run_id": str(run.run_id), "migrations": applied} | run.summary


def _walk(place: Place, options: Options, folder: UPath, *, lease: Lease | None) -> dict[str, Any]:
    settings, schema = place.settings, place.tenant.schema
    timings = Timings()
    fingerprint = labelling_hash(load_taxonomy(settings.taxonomy), use_layers=settings.layers)
    if options.plan:
        parts = plan_parts(plan_folder(settings, options.plan, schema))
    else:
        parts = _plan_labels(place, options, folder, fingerprint, timings)
    labels = summarise_plan(parts, quality_limits(settings))
    summary: dict[str, Any] = {"labels": asdict(labels), "hints": frozen_hints(labels)}
    if options.wants("labels") and lease:
        with timings.of("load"):
            summary["loaded"] = asdict(load(schema, parts, lease, fingerprint))
    stages: dict[Kind, Stage] = {"closet": "closets", "tunnel": "tunnels"}
    asked: list[Kind] = [kind for kind, stage in stages.items() if options.wants(stage)]
    if asked and lease:
        summary["restored"] = restore(schema, asked, lease)
    if options.wants("closets"):
        with timings.of("closets"):
            summary["closets"] = _condense_rooms(place, parts, options, lease)
    if options.wants("tunnels"):
        with timings.of("tunnels"):
            summary["tunnels"] = _link_banks(place, parts, options, folder, lease)
    return summary | {"seconds": timings.seconds}


def _plan_labels(place: Place, options: Options, folder: UPath, fingerprint: str, timings: Timings) -> list[UPath]:
    settings = place.settings
    with timings.of("extract"):
        units = extract(place.tenant.schema, options.banks, fingerprint, folder)
    with timings.of("classify"):
        parts = [part.result() for part in [label.submit(u, settings.taxonomy, settings.layers) for u in units]]
        for path in units:
            path.unlink()  # the texts are no longer needed
    return parts


def _condense_rooms(place: Place, parts: list[UPath], options: Options, lease: Lease | None) -> dict[str, Any]:
    n_released = give_back_orphans(place, lease) if lease else 0
    rooms = rooms_to_condense(place, parts, options.banks)
    wishes = renew(place.tenant.schema, options.banks, lease, Spent())
    done = list(_condensed(place, rooms, parts, lease, wishes.spent))
    names = ("n_new", "n_updated", "n_gone", "n_kept", "n_archived")
    counts = {name: sum(getattr(each, name) for each in done) for name in names}
    failures = [reason for each in (wishes, *done) for reason in each.failures]
    counts |= {"n_renewed": wishes.n_written, "n_waiting": wishes.n_waiting}
    counts["n_left_out"] = sum(each.n_left_out for each in (wishes, *done))
    rooms_at = {"n_rooms": len(rooms), "threshold": place.settings.closet_threshold, "n_released": n_released}
    spent = asdict(done[-1].spent if done else wishes.spent)
    return counts | rooms_at | spent | {"n_failed": len(failures), "failures": failures}


def _condensed(
    place: Place, rooms: list[tuple[str, str]], parts: list[UPath], lease: Lease | None, spent: Spent
) -> Iterator[CondensedRoom]:
    """Rooms side by side; one after the other where they share a model's budget or write memory_units."""
    schema, settings = place.tenant.schema, place.settings
    is_free = settings.summary_model is None and not settings.archive_sources
    ahead = [condense.submit(schema, bank, room, parts, lease, spent) for bank, room in rooms if is_free]
    for number, (bank, room) in enumerate(rooms):
        done = ahead[number].result() if is_free else condense(schema, bank, room, parts, lease, spent)
        spent = done.spent
        report("closets", number + 1, len(rooms), bank=bank)
        yield done


def _link_banks(
    place: Place, parts: list[UPath], options: Options, folder: UPath, lease: Lease | None
) -> dict[str, Any]:
    rooms = rooms_to_link(place, parts, options.banks)
    schema = place.tenant.schema
    found = [link.submit(schema, room, options.banks, folder, lease is not None) for room in rooms]
    paths = [future.result() for future in found]
    counts = dig(schema, paths, options.banks, lease)
    return counts | {"n_rooms": len(rooms), "pairs": [list(pair) for pair in place.settings.tunnel_pairs]}


def _left_undone(summary: dict[str, Any]) -> bool:
    """Something that the run was to write is not written: rows locked all the while, or closets that failed."""
    locked = summary.get("loaded", {}).get("skipped", {}).get("locked", 0)
    return bool(locked or summary.get("closets", {}).get("n_failed", 0))
