"""Takes a run back: labels through the careful loader, closets and tunnels dropped, units held."""

from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any
from uuid import uuid4

import polars as pl

from rcll.errors import InputError, Unreachable
from rcll.stages.undo import plan_undo
from rcll.store.lease import Lease, hold_banks
from rcll.store.ledger import Run, finish_run, start_run
from rcll.store.load import Loaded, write_labels
from rcll.store.oneline import one_line_errors
from rcll.store.undo import (
    find_run,
    mark_undone,
    read_written,
    release_holds,
    remove_findings,
    touched_banks,
)
from rcll.store.write import WRITES, Stamp
from rcll.walk.place import Place, load_limits

#: Kinds of run that write no labels of their own, and what to say instead.
_NOT_TO_UNDO = {
    "undo": "it took run {undoes} back; say rcll undo {undoes} --release and rcll reorganize to file its units again",
    "adopt": "it changed no label, only whose they are; set labels with rcll label",
}


@dataclass(frozen=True, slots=True)
class Undone:
    """What came of an undo; ``skipped`` counts by reason the units that keep what the run wrote."""

    run_id: str
    undoes: str
    status: str
    n_restored: int
    n_held: int
    n_released: int
    n_closets: int
    n_tunnels: int
    skipped: dict[str, int]


def undo_run(place: Place, run_id: str, *, release: bool = False) -> Undone:
    """Give back what a run replaced, except what somebody has changed since.

    The units are held: later runs leave them alone until their text or the rules change. With ``release``
    they are not, and for a run that was undone before its holds end.

    Raises:
        InputError: no such run, or one that cannot be undone.
        Busy: another run holds one of its banks.
    """
    database, tenant = place.database, place.tenant
    with database.connect() as conn:
        run = _require_run(place, find_run(conn, tenant, run_id) if tenant.migrated else None, run_id)
        _check_undoable(run, release=release)
        banks = touched_banks(conn, tenant, run_id)
    asked: dict[str, Any] = {"undoes": run.run_id, "release": release}
    undo_id = uuid4()
    with one_line_errors("the undo"), hold_banks(database, tenant, banks, undo_id) as lease:
        with database.connect() as conn:  # on record once it holds its banks; refused, it never began
            start_run(conn, tenant, kind="undo", taxonomy_hash="", parameters=asked, run_id=undo_id)
        try:
            undone = _release(place, run, lease) if run.status == "undone" else _take_back(place, run, lease, release)
        except BaseException as error:
            with suppress(Unreachable), database.connect() as conn:
                finish_run(conn, tenant, undo_id, status="failed", summary={"error": type(error).__name__})
            raise
        with database.connect() as conn:
            finish_run(conn, tenant, undo_id, status=undone.status, summary=asdict(undone))
    return undone


def _require_run(place: Place, run: Run | None, run_id: str) -> Run:
    if run is None:
        raise InputError(
            f"schema '{place.tenant.schema}' knows no run '{run_id[:60]}'; expected one of those that rcll runs lists"
        )
    return run


def _check_undoable(run: Run, *, release: bool) -> None:
    if run.status == "undone" and not release:
        raise InputError(f"run {run.run_id} is undone already; say --release to let the next run file its units again")
    if run.kind in _NOT_TO_UNDO:
        undoes = (run.summary or {}).get("undoes", "RUN")
        raise InputError(f"run {run.run_id} cannot be undone: {_NOT_TO_UNDO[run.kind].format(undoes=undoes)}")


def _take_back(place: Place, run: Run, lease: Lease, release: bool) -> Undone:
    database, tenant = place.database, place.tenant
    with database.connect() as conn:
        planned = plan_undo(read_written(conn, tenant, run.run_id))
    n_written = ((run.summary or {}).get("loaded") or {}).get("n_written", 0)
    if n_written and planned.is_empty():
        raise InputError(
            f"run {run.run_id} wrote {n_written} labels, and what they replaced is forgotten; expected a run of the "
            f"last {place.settings.undo_days} days (RCLL_UNDO_DAYS); set labels with rcll label"
        )
    outcomes = Counter(planned["outcome"].to_list())
    loaded = _restore(place, planned.filter(pl.col("outcome") == "restore"), lease, release=release)
    removed = remove_findings(database, tenant, run.run_id, lease)
    skipped = Counter({reason: outcomes[reason] for reason in ("gone", "edited", "relabelled")})
    for part in loaded:
        skipped += Counter(part.skipped)
    n_restored = sum(part.n_written for part in loaded)
    is_partial = skipped["locked"] > 0
    gave_nothing = not n_restored and not any(removed) and skipped.total() > 0  # later runs lie over it
    if not is_partial and not gave_nothing:
        with database.connect() as conn:
            mark_undone(conn, tenant, run.run_id)
    return Undone(
        run_id=str(lease.run_id),
        undoes=run.run_id,
        status="partial" if is_partial else "done",
        n_restored=n_restored,
        n_held=0 if release else n_restored,
        n_released=0,
        n_closets=removed.n_closets,
        n_tunnels=removed.n_tunnels,
        skipped={reason: n for reason, n in sorted(skipped.items()) if n},
    )


def _restore(place: Place, planned: pl.DataFrame, lease: Lease, *, release: bool) -> list[Loaded]:
    """Write labels back, apart for each set of rules that the ledger names: a hold ends with the rules it names."""
    return [
        write_labels(
            place.database,
            place.tenant,
            part.select(WRITES.names()),
            lease,
            Stamp(taxonomy_hash=None if release else part["ledger_taxonomy_hash"][0], is_held=not release),
            limits=load_limits(place.settings),
        )
        for part in planned.partition_by("ledger_taxonomy_hash", maintain_order=True)
    ]


def _release(place: Place, run: Run, lease: Lease) -> Undone:
    with place.database.connect() as conn:
        n_released = release_holds(conn, place.tenant, run.run_id, lease)
    return Undone(str(lease.run_id), run.run_id, "done", 0, 0, n_released, 0, 0, {})
