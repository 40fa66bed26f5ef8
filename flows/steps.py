"""The steps of the flows as Prefect tasks: thin, retried where that helps, never cached.

They hand on names of schemas, ids, counts and paths of Parquet parts; an address or a password never travels.
"""

from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

import polars as pl
from upath import UPath

from flows.engine import step
from rcll.frames import TUNNELS
from rcll.pauses import PauseWindow
from rcll.stages.throttle import PressureLimits
from rcll.store.control import open_gate
from rcll.store.explicit import Kind, restore_explicit
from rcll.store.extract import extract_units
from rcll.store.lease import Lease
from rcll.store.load import Loaded, apply_changes, read_changes
from rcll.store.migrate import migrate
from rcll.store.parts import read_part, write_part
from rcll.store.tunnels import dig_tunnels, plan_tunnels
from rcll.taxonomy import load_taxonomy
from rcll.walk.asked import Renewed, preview_renewals, renew_closets, stale_wishes
from rcll.walk.backfill import plan_missed, plan_pages
from rcll.walk.closets import CondensedRoom, condense_room
from rcll.walk.labels import plan_part
from rcll.walk.making import Spent
from rcll.walk.place import load_limits, open_place
from rcll.walk.summary import units_of_room
from rcll.walk.tunnels import RoomUnits, link_room

_MEGABYTE = 1_000_000


@step
def migrate_schema(schema: str) -> list[str]:
    """Bring a tenant's schema to this version; returns the names of the migrations applied."""
    with open_place(schema) as place:
        return [migration.name for migration in migrate(place.database, place.tenant)]


@step
def extract(schema: str, banks: list[str] | None, fingerprint: str, folder: UPath) -> list[UPath]:
    """Write the units to Parquet parts."""
    with open_place(schema) as place:
        return extract_units(place.database, place.tenant, banks=banks, taxonomy_hash=fingerprint, folder=folder)


@step
def label(units_path: UPath, taxonomy_path: str | None, use_layers: bool) -> UPath:
    """Classify a part and compare it with bank and ledger; returns the plan part."""
    return plan_part(units_path, load_taxonomy(taxonomy_path), use_layers=use_layers)


@step
def file_pages(schema: str, banks: list[str] | None, pages: tuple[int, int], folder: UPath) -> UPath:
    """Read and classify the units on a range of heap pages; returns the plan part."""
    with open_place(schema) as place:
        return plan_pages(place, banks, pages, folder)


@step
def file_missed(schema: str, banks: list[str] | None, folder: UPath) -> list[UPath]:
    """Read and classify what no range of pages met; returns the plan parts."""
    with open_place(schema) as place:
        return plan_missed(place, banks, folder)


@step
def load(
    schema: str,
    parts: list[UPath],
    lease: Lease,
    fingerprint: str,
    rate: float | None = None,
    pauses: list[str] | None = None,
) -> Loaded:
    """Write the planned changes, in short transactions, as fast as the server and the operator allow."""
    with open_place(schema) as place:
        settings = place.settings.model_copy(update={"rate": rate or place.settings.rate})
        windows = [PauseWindow.parse(window) for window in (*settings.pauses, *(pauses or ()))]
        pressure = PressureLimits(settings.max_latency, settings.max_lag * _MEGABYTE)
        with open_gate(place.database, place.tenant, lease.run_id, windows=windows, limits=pressure) as gate:
            loaded = apply_changes(
                place.database,
                place.tenant,
                read_changes(parts),
                lease,
                taxonomy_hash=fingerprint,
                limits=load_limits(settings),
                gate=gate,
            )
    return replace(loaded, waited=gate.seconds)


@step
def restore(schema: str, kinds: Sequence[Kind], lease: Lease) -> dict[str, int]:
    """Put back the tunnels and closets that somebody asked for and a restore or a revert took along."""
    with open_place(schema) as place:
        return restore_explicit(place.database, place.tenant, lease, kinds=kinds)._asdict()


@step
def condense(schema: str, bank: str, room: str, parts: list[UPath], lease: Lease | None, spent: Spent) -> CondensedRoom:
    """Bring the closets of one room up to date; without a lease only say what would be done."""
    with open_place(schema) as place:
        return condense_room(place, bank, room, units_of_room(parts, bank, room), lease=lease, spent=spent)


@step
def renew(schema: str, banks: list[str] | None, lease: Lease | None, spent: Spent) -> Renewed:
    """Write closets anew that somebody asked for and whose sources read differently now; without a lease only count."""
    with open_place(schema) as place:
        stale = stale_wishes(place, banks)
        return renew_closets(place, stale, lease, spent) if lease else preview_renewals(place, stale, spent)


@step
def link(schema: str, room: RoomUnits, banks: list[str] | None, folder: UPath, is_filed: bool) -> UPath:
    """Find the tunnels of one room; returns a Parquet path."""
    with open_place(schema) as place:
        found = link_room(place, room, banks, is_filed=is_filed)
    return write_part(found, folder / f"tunnels-{uuid4().hex}.parquet")


@step
def dig(schema: str, paths: list[UPath], banks: list[str] | None, lease: Lease | None) -> dict[str, int]:
    """Make the automatic tunnels equal to the found ones; without a lease only count."""
    found = pl.concat([pl.DataFrame(schema=TUNNELS), *(read_part(path) for path in paths)])
    with open_place(schema) as place:
        with place.database.connect() as conn:
            plan = plan_tunnels(conn, place.tenant, found, banks)
        n_new, n_changed, n_gone = plan.new.height, plan.changed.height, len(plan.gone)
        if lease:
            n_new, n_changed, n_gone = dig_tunnels(place.database, place.tenant, plan, lease)
    return {"n_new": n_new, "n_updated": n_changed, "n_gone": n_gone, "n_kept": plan.n_kept}
