"""Plans on disk: what a dry run would write, kept until somebody applies it.

A plan is a folder ``plans/<id>/<schema>`` under RCLL_STORAGE: Parquet parts (output of stages.plan.plan_labels,
found tunnels) and ``plan.json``, written last, which says for which database, rules and base the parts hold.
"""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal
from uuid import uuid4

from pydantic import BaseModel, ValidationError
from upath import UPath

from rcll.errors import InputError
from rcll.settings import Settings
from rcll.store.ledger import database_identity, find_plan_run
from rcll.store.parts import remove_folder, schema_folder, storage_path
from rcll.taxonomy import load_taxonomy
from rcll.walk.labels import labelling_hash
from rcll.walk.place import Place

Stage = Literal["labels", "closets", "tunnels"]

_MANIFEST = "plan.json"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a plan holds for; ``base`` covers its parts: every unit as it read, and what shall become of it."""

    database: str
    schema: str
    taxonomy: str
    base: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A stored plan; ``banks`` and ``only`` are what was asked for."""

    plan_id: str
    folder: UPath
    fingerprint: Fingerprint
    made_at: str
    banks: list[str] | None
    only: Stage | None


class _Manifest(BaseModel, strict=True):
    """What ``plan.json`` says of a plan, checked as it is read."""

    plan_id: str
    fingerprint: Fingerprint
    made_at: str
    banks: list[str] | None
    only: Stage | None


def new_plan_id() -> str:
    """An id that sorts by time."""
    return f"plan-{time.strftime('%Y%m%d-%H%M%S')}-{uuid4().hex[:6]}"


def plan_folder(settings: Settings, plan_id: str, schema: str) -> UPath:
    """Where a plan's files of one tenant lie."""
    return _plans(settings) / plan_id / schema_folder(schema)


def plan_parts(folder: UPath) -> list[UPath]:
    """Label parts of a plan in the order of their units."""
    return sorted(folder.glob("plan-*.parquet"), key=str)


def store_plan(place: Place, plan_id: str, *, banks: list[str] | None, only: Stage | None) -> Plan:
    """Seal a plan whose parts are written, and let go of the oldest beyond ``plans_kept``."""
    folder = plan_folder(place.settings, plan_id, place.tenant.schema)
    made_at = time.strftime("%Y-%m-%d %H:%M:%S %z")
    plan = Plan(plan_id, folder, _fingerprint(place, plan_parts(folder)), made_at, banks, only)
    folder.mkdir(parents=True, exist_ok=True)
    values = asdict(plan) | {"folder": None}
    (folder / _MANIFEST).write_text(json.dumps(values, ensure_ascii=False, indent=2), encoding="utf-8")
    _expire(place.settings, plan_id)
    return plan


def find_plans(settings: Settings, plan_id: str) -> list[Plan]:
    """Read a plan, one for each tenant that it has parts of, sorted by schema.

    Raises:
        InputError: there is no such plan, or it is no whole one.
    """
    folder = _plans(settings) / plan_id
    if not plan_id or folder.parent != _plans(settings) or not folder.is_dir():
        known = sorted(path.name for path in _plans(settings).glob("plan-*"))
        last = f"the last is '{known[-1]}'" if known else "there is none; run rcll plan"
        raise InputError(f"no plan '{plan_id[:60]}' under {_plans(settings)}; {last}")
    files = sorted(folder.glob(f"*/{_MANIFEST}"), key=str)
    if not files:
        raise _torn(plan_id)
    return [_read_plan(file) for file in files]


def check_plan(place: Place, plan: Plan) -> None:
    """Make sure that a plan fits the database, the rules of today and its own parts, and was not applied before.

    Units that changed since it was made are no reason to refuse it: the loader skips and counts them.

    Raises:
        InputError: it does not; nothing was written.
    """
    made_for, here = plan.fingerprint, _fingerprint(place, plan_parts(plan.folder))
    if made_for.database != here.database:
        raise InputError(
            f"plan '{plan.plan_id}' was made on another database ({made_for.database}); expected this one "
            f"({here.database}); correct RCLL_DATABASE_URL, or make a plan here"
        )
    if made_for.taxonomy != here.taxonomy:
        raise InputError(
            f"plan '{plan.plan_id}' was made with other rules ({made_for.taxonomy[:12]}); those of today are "
            f"{here.taxonomy[:12]}; give the same --taxonomy and --layers, or make a new plan"
        )
    if made_for.base != here.base:
        raise InputError(f"plan '{plan.plan_id}' has parts that are not those it was made of; make a new plan")
    with place.database.connect() as conn:
        run = find_plan_run(conn, place.tenant, plan.plan_id) if place.tenant.migrated else None
    if run:
        raise InputError(
            f"plan '{plan.plan_id}' was applied by run {run.run_id} at {run.started_at:%Y-%m-%d %H:%M:%S %Z} "
            f"({run.status}); expected a plan that was not; make a new one"
        )


def _plans(settings: Settings) -> UPath:
    return storage_path(settings) / "plans"


def _fingerprint(place: Place, parts: Sequence[UPath]) -> Fingerprint:
    with place.database.connect() as conn:
        identity = database_identity(conn)
    database = f"{identity[0]} {hashlib.sha256(' '.join(identity).encode()).hexdigest()[:12]}"
    rules = labelling_hash(load_taxonomy(place.settings.taxonomy), use_layers=place.settings.layers)
    return Fingerprint(database, place.tenant.schema, rules, _base(parts))


def _base(parts: Sequence[UPath]) -> str:
    digest = hashlib.sha256()
    for path in parts:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]


def _read_plan(file: UPath) -> Plan:
    """The plan that a manifest tells of, if it lies where that plan was stored."""
    plan_id = file.parent.parent.name
    try:
        found = _Manifest.model_validate_json(file.read_bytes())
    except (ValidationError, OSError):
        raise _torn(plan_id) from None
    plan = Plan(found.plan_id, file.parent, found.fingerprint, found.made_at, found.banks, found.only)
    if plan.plan_id != plan_id or schema_folder(plan.fingerprint.schema) != file.parent.name:
        raise InputError(
            f"plan '{plan_id}' lies in a folder that is not its own; expected plan '{plan.plan_id[:60]}' of schema "
            f"'{plan.fingerprint.schema[:60]}' where rcll plan put it; move it back, or make a new plan"
        )
    return plan


def _torn(plan_id: str) -> InputError:
    return InputError(f"plan '{plan_id}' is not whole; expected one that rcll plan finished; make a new plan")


def _expire(settings: Settings, plan_id: str) -> None:
    """Let go of the oldest, never of the plan just made: where a clock was set back, others bear later dates."""
    others = (path for path in _plans(settings).glob("plan-*") if path.name != plan_id)
    for folder in sorted(others, key=str, reverse=True)[settings.plans_kept - 1 :]:
        remove_folder(folder)
