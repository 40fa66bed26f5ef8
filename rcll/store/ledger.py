"""What rcll keeps of its own doings: runs, and labels that somebody set through it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from psycopg.types.json import Jsonb

from rcll import __version__
from rcll.errors import InputError
from rcll.store.catalog import Tenant
from rcll.store.connect import Connection
from rcll.store.lease import LEASE_SECONDS
from rcll.store.sql import query

#: What the ledger names as the rule of a label that somebody set through rcll, in place of found on the unit.
BY_HAND = "rcll label"


class Run(NamedTuple):
    """A row of rcll_runs; ``summary`` is None while it runs or when it was killed.

    ``status`` is running, done, partial, failed, undone, or dead: it says running, and no lease of it is alive.
    """

    run_id: str
    kind: str
    status: str
    started_at: datetime
    finished_at: datetime | None
    summary: dict[str, Any] | None


class LabelledUnit(NamedTuple):
    """A unit with its stored label and what the ledger knows of it, None where it knows nothing."""

    unit_id: str
    bank_id: str
    text: str | None
    room: str | None
    hall: str | None
    layer: str | None
    room_source: str | None
    hall_source: str | None
    layer_source: str | None
    room_rule: str | None
    hall_rule: str | None
    layer_rule: str | None
    labelled_at: datetime | None
    run_id: str | None
    is_held: bool
    is_due: bool
    """Handed back to the rules: the next run decides, whatever the unit bears until then."""


def start_run(
    conn: Connection,
    tenant: Tenant,
    *,
    kind: str,
    taxonomy_hash: str,
    parameters: dict[str, Any],
    run_id: UUID | None = None,
) -> UUID:
    """Record that a run begins, under the id that holds its leases, and mark runs that were killed as failed."""
    conn.execute(query("close_dead_runs", **tenant.names()), {"seconds": LEASE_SECONDS})
    run_id = run_id or uuid4()
    row = {"run_id": run_id, "kind": kind, "taxonomy_hash": taxonomy_hash, "version": __version__}
    conn.execute(query("start_run", **tenant.names()), row | {"parameters": Jsonb(parameters)})
    return run_id


def finish_run(conn: Connection, tenant: Tenant, run_id: UUID, *, status: str, summary: dict[str, Any]) -> None:
    """Record how a run ended: done, partial or failed."""
    row = {"run_id": run_id, "status": status, "summary": Jsonb(summary)}
    conn.execute(query("finish_run", **tenant.names()), row)


def list_runs(conn: Connection, tenant: Tenant, *, limit: int = 20) -> list[Run]:
    """Runs, newest first."""
    values = {"limit": limit, "seconds": LEASE_SECONDS}
    rows = conn.execute(query("list_runs", **tenant.names()), values).fetchall()
    return [Run(*row) for row in rows]


def match_runs(conn: Connection, tenant: Tenant, bounds: tuple[str, str]) -> list[str]:
    """Ids of up to three runs between two ids."""
    return _matching(conn, "match_runs", tenant, bounds)


def match_units(conn: Connection, tenant: Tenant, bounds: tuple[str, str]) -> list[str]:
    """Ids of up to three units between two ids."""
    return _matching(conn, "match_units", tenant, bounds)


def find_plan_run(conn: Connection, tenant: Tenant, plan_id: str) -> Run | None:
    """The run that applied a plan to its end; None where there is none."""
    row = conn.execute(query("find_plan_run", **tenant.names()), {"plan": plan_id}).fetchone()
    return Run(*row) if row else None


def database_identity(conn: Connection) -> tuple[str, str, str]:
    """Name of the database, identifier of the server's data, number of the database in it."""
    row = conn.execute(query("database_identity")).fetchone()
    assert row is not None
    return row[0], row[1], row[2]


def find_unit(conn: Connection, tenant: Tenant, unit_id: str) -> LabelledUnit | None:
    """One unit with its label, or None where the tenant has no such unit."""
    row = conn.execute(query("select_label", **tenant.names()), {"unit_id": unit_id}).fetchone()
    return LabelledUnit(*row) if row else None


def set_explicit(
    conn: Connection,
    tenant: Tenant,
    unit_ids: Sequence[str],
    *,
    room: str | None = None,
    hall: str | None = None,
    layer: int | None = None,
) -> list[str]:
    """Set labels as somebody's own: rules never change them again. None leaves a field as it is.

    Returns:
        The ids that exist and were set, sorted.
    """
    for label in (room, hall):
        if label is not None and not 0 < len(label.strip()) <= 64:  # noqa: PLR2004 - varchar(64)
            raise InputError(f"label '{label[:80]}' has {len(label)} characters; expected 1 to 64")
    is_text = tenant.layer_type == "text"
    spelled = None if layer is None else f"L{layer}" if is_text else str(layer)
    values = {"room": room, "hall": hall, "layer": layer, "stored_layer": spelled, "by_hand": BY_HAND}
    rows = conn.execute(query("set_explicit", **tenant.names()), values | {"unit_ids": list(unit_ids)}).fetchall()
    return sorted(unit_id for (unit_id,) in rows)


def clear_explicit(conn: Connection, tenant: Tenant, unit_ids: Sequence[str]) -> list[str]:
    """Hand units back to the rules; the next run files them. Returns the ids that were known, sorted."""
    rows = conn.execute(query("clear_explicit", **tenant.names()), {"unit_ids": list(unit_ids)}).fetchall()
    return sorted(unit_id for (unit_id,) in rows)


def _matching(conn: Connection, name: str, tenant: Tenant, bounds: tuple[str, str]) -> list[str]:
    rows = conn.execute(query(name, **tenant.names()), {"low": bounds[0], "high": bounds[1]}).fetchall()
    return [found for (found,) in rows]
