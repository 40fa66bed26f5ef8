"""The main job: extract, classify, plan, load, then closets and tunnels, migration always first.

One code path: a dry run is the same walk stopped before anything is written. Between tasks travel names,
counts and Parquet paths, never rows and never an address.
"""

import shutil
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID, uuid4

import polars as pl
from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import Field

from rcll.frames import TUNNELS
from rcll.progress import report
from rcll.settings import load_settings
from rcll.store.explicit import Kind, restore_explicit
from rcll.store.extract import extract_units, list_banks
from rcll.store.lease import Lease, hold_banks
from rcll.store.ledger import finish_run, start_run
from rcll.store.load import Loaded, apply_changes, read_changes
from rcll.store.migrate import migrate, pending
from rcll.store.parts import write_part
from rcll.store.tunnels import dig_tunnels, plan_tunnels
from rcll.store.undo import expire_changes
from rcll.taxonomy import load_taxonomy
from rcll.walk.archive import give_back_orphans
from rcll.walk.asked import Renewed, renew_closets, stale_wishes
from rcll.walk.closets import CondensedRoom, condense_room, rooms_to_condense
from rcll.walk.labels import labelling_hash, plan_part
from rcll.walk.leftovers import run_folder, sweep_dead_runs
from rcll.walk.making import Spent
from rcll.walk.place import Place, load_limits, open_place, open_places, places_of
from rcll.walk.plans import check_plan, find_plans, new_plan_id, plan_folder, plan_parts, store_plan
from rcll.walk.summary import frozen_hints, summarise_plan, units_of_room
from rcll.walk.tunnels import RoomUnits, link_room, rooms_to_link

Stage = Literal["labels", "closets", "tunnels"]

#: Two workers: the regex engine and BLAS use the cores inside one task already.
RUNNER: Any = ThreadPoolTaskRunner(max_workers=2)


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


@task(cache_policy=NO_CACHE)
def migrate_schema(schema: str) -> list[str]:
    """Bring a tenant's schema to this version; returns the names of the migrations applied."""
    with open_place(schema) as place:
        return [migration.name for migration in migrate(place.database, place.tenant)]


@task(cache_policy=NO_CACHE)
def extract(schema: str, banks: list[str] | None, fingerprint: str, folder: Path) -> list[Path]:
    """Write the units to Parquet parts."""
    with open_place(schema) as place:
        return extract_units(place.database, place.tenant, banks=banks, taxonomy_hash=fingerprint, folder=folder)


@task(cache_policy=NO_CACHE)
def label(units_path: Path, taxonomy_path: str | None, use_layers: bool) -> Path:
    """Classify a part and compare it with bank and ledger; returns the plan part."""
    return plan_part(units_path, load_taxonomy(taxonomy_path), use_layers=use_layers)


@task(cache_policy=NO_CACHE)
def load(schema: str, parts: list[Path], lease: Lease, fingerprint: str) -> Loaded:
    """Write the planned changes."""
    with open_place(schema) as place:
        limits = load_limits(place.settings)
        changes = read_changes(parts)
        return apply_changes(place.database, place.tenant, changes, lease, taxonomy_hash=fingerprint, limits=limits)


@task(cache_policy=NO_CACHE)
def restore(schema: str, kinds: Sequence[Kind], lease: Lease) -> dict[str, int]:
    """Put back the tunnels and closets that somebody asked for and a restore or a revert took along."""
    with open_place(schema) as place:
        return restore_explicit(place.database, place.tenant, lease, kinds=kinds)._asdict()


@task(cache_policy=NO_CACHE)
def condense(schema: str, bank: str, room: str, parts: list[Path], lease: Lease | None, spent: Spent) -> CondensedRoom:
    """Bring the closets of one room up to date; without a lease only say what would be done."""
    with open_place(schema) as place:
        return condense_room(place, bank, room, units_of_room(parts, bank, room), lease=lease, spent=spent)


@task(cache_policy=NO_CACHE)
def renew(schema: str, banks: list[str] | None, lease: Lease, spent: Spent) -> Renewed:
    """Write closets anew that somebody asked for and whose sources read differently now."""
    with open_place(schema) as place:
        return renew_closets(place, stale_wishes(place, banks), lease, spent)


@task(cache_policy=NO_CACHE)
def link(schema: str, room: RoomUnits, banks: list[str] | None, folder: Path, is_filed: bool) -> Path:
    """Find the tunnels of one room; returns a Parquet path."""
    with open_place(schema) as place:
        found = link_room(place, room, banks, is_filed=is_filed)
    return write_part(found, folder / f"tunnels-{uuid4().hex}.parquet")


@task(cache_policy=NO_CACHE)
def dig(schema: str, paths: list[Path], banks: list[str] | None, lease: Lease | None) -> dict[str, int]:
    """Make the automatic tunnels equal to the found ones; without a lease only count."""
    found = pl.concat([pl.DataFrame(schema=TUNNELS), *(pl.read_parquet(path) for path in paths)])
    with open_place(schema) as place:
        with place.database.connect() as conn:
            plan = plan_tunnels(conn, place.tenant, found, banks)
        n_new, n_gone = plan.new.height, len(plan.gone)
        if lease:
            n_new, n_gone = dig_tunnels(place.database, place.tenant, plan, lease)
    return {"n_new": n_new, "n_gone": n_gone, "n_kept": plan.n_kept}


@flow(name="reorganize", task_runner=RUNNER)
def reorganize(
    banks: Annotated[list[str] | None, Field(description="Banks to work on; empty means all.")] = None,
    schemas: Annotated[list[str] | None, Field(description="PostgreSQL schemas (tenants); empty means all.")] = None,
    only: Annotated[Stage | None, Field(description="One stage instead of all three.")] = None,
    dry_run: Annotated[bool, Field(description="Plan only; nothing in the database changes.")] = False,
) -> list[dict[str, Any]]:
    """File every unit, condense oversized rooms, dig tunnels.

    Returns:
        One summary per tenant; ``status`` is done, partial or planned.
    """
    with open_places(schemas or ()) as places:
        return [
            _reorganize_tenant(place, Options(held, only, dry_run)) for place, held in places_of(places, banks or None)
        ]


@flow(name="apply", task_runner=RUNNER)
def apply(plan_id: Annotated[str, Field(description="Id that rcll plan printed.")]) -> list[dict[str, Any]]:
    """Write what a stored plan says, and nothing else; what has changed since is skipped and counted.

    Returns:
        One summary per tenant, as that of :func:`reorganize`.
    """
    plans = find_plans(load_settings(), plan_id)
    with open_places([plan.fingerprint.schema for plan in plans]) as places:
        for place, plan in zip(places, plans, strict=True):
            check_plan(place, plan)
        return [
            _reorganize_tenant(place, Options(plan.banks, plan.only, dry_run=False, plan=plan.plan_id))
            for place, plan in zip(places, plans, strict=True)
        ]


def _reorganize_tenant(place: Place, options: Options) -> dict[str, Any]:
    walk = _plan_walk if options.dry_run else _write_walk
    return {"schema": place.tenant.schema, "kind": place.tenant.kind} | walk(place, options)


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
    with open_place(schema) as migrated:
        banks = _bank_names(migrated, options.banks)
        run_id = _start(migrated, options)
        sweep_dead_runs(migrated)
        folder = run_folder(place.settings, str(run_id)) / schema
        try:
            with hold_banks(migrated.database, migrated.tenant, banks, run_id) as lease:
                summary = _walk(migrated, options, folder, lease=lease)
        except BaseException as error:
            _finish(migrated, run_id, "failed", {"error": type(error).__name__})
            raise
        finally:
            shutil.rmtree(folder.parent, ignore_errors=True)  # it holds memory texts
        status = "partial" if _left_undone(summary) else "done"
        _finish(migrated, run_id, status, summary)
    return {"status": status, "run_id": str(run_id), "migrations": applied} | summary


def _walk(place: Place, options: Options, folder: Path, *, lease: Lease | None) -> dict[str, Any]:
    settings, schema = place.settings, place.tenant.schema
    timings = Timings()
    fingerprint = labelling_hash(load_taxonomy(settings.taxonomy), use_layers=settings.layers)
    if options.plan:
        parts = plan_parts(plan_folder(settings, options.plan, schema))
    else:
        parts = _plan_labels(place, options, folder, fingerprint, timings)
    labels = summarise_plan(parts)
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


def _plan_labels(place: Place, options: Options, folder: Path, fingerprint: str, timings: Timings) -> list[Path]:
    settings = place.settings
    with timings.of("extract"):
        units = extract(place.tenant.schema, options.banks, fingerprint, folder)
    with timings.of("classify"):
        parts = [part.result() for part in [label.submit(u, settings.taxonomy, settings.layers) for u in units]]
        for path in units:
            path.unlink()  # the texts are no longer needed
    return parts


def _condense_rooms(place: Place, parts: list[Path], options: Options, lease: Lease | None) -> dict[str, Any]:
    n_released = give_back_orphans(place, lease) if lease else 0
    rooms = rooms_to_condense(place, parts, options.banks)
    done: list[CondensedRoom] = []
    wishes = renew(place.tenant.schema, options.banks, lease, Spent()) if lease else Renewed(Spent())
    for number, (bank, room) in enumerate(rooms, start=1):
        spent = done[-1].spent if done else wishes.spent
        done.append(condense(place.tenant.schema, bank, room, parts, lease, spent))
        report("closets", number, len(rooms), bank=bank)
    names = ("n_new", "n_updated", "n_gone", "n_kept", "n_archived")
    counts = {name: sum(getattr(each, name) for each in done) for name in names}
    failures = [reason for each in (wishes, *done) for reason in each.failures]
    counts |= {"n_renewed": wishes.n_written, "n_waiting": wishes.n_waiting}
    rooms_at = {"n_rooms": len(rooms), "threshold": place.settings.closet_threshold, "n_released": n_released}
    spent = asdict(done[-1].spent if done else wishes.spent)
    return counts | rooms_at | spent | {"n_failed": len(failures), "failures": failures}


def _link_banks(place: Place, parts: list[Path], options: Options, folder: Path, lease: Lease | None) -> dict[str, Any]:
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


def _bank_names(place: Place, banks: Sequence[str] | None) -> list[str]:
    if banks:
        return sorted(banks)
    with place.database.connect() as conn:
        return list_banks(conn, place.tenant)


def _start(place: Place, options: Options) -> UUID:
    settings = place.settings
    fingerprint = labelling_hash(load_taxonomy(settings.taxonomy), use_layers=settings.layers)
    with place.database.connect() as conn:
        return start_run(conn, place.tenant, kind="reorganize", taxonomy_hash=fingerprint, parameters=asdict(options))


def _finish(place: Place, run_id: UUID, status: str, summary: dict[str, Any]) -> None:
    with place.database.connect() as conn:
        finish_run(conn, place.tenant, run_id, status=status, summary=summary)
        expire_changes(conn, place.tenant, days=place.settings.undo_days)
