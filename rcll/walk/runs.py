"""A run from beginning to end: its row in rcll_runs, the leases on its banks, its folder of parts."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID, uuid4

from upath import UPath

from rcll.errors import RcllError
from rcll.logs import logged_as
from rcll.store.extract import list_banks
from rcll.store.lease import Lease, hold_banks
from rcll.store.ledger import finish_run, start_run
from rcll.store.parts import remove_folder, schema_folder
from rcll.store.retention import expire_changes, expire_labels
from rcll.taxonomy import load_taxonomy
from rcll.walk.labels import labelling_hash
from rcll.walk.leftovers import run_folder, sweep_dead_runs
from rcll.walk.place import Place


@dataclass(slots=True)
class OpenRun:
    """A run under way; whoever does its work leaves summary and status here, as far as it came."""

    run_id: UUID
    lease: Lease
    folder: UPath
    summary: dict[str, Any]
    status: Literal["done", "partial"] = "done"


@contextmanager
def recorded_run(
    place: Place, kind: str, banks: Sequence[str] | None, parameters: dict[str, Any]
) -> Generator[OpenRun]:
    """Record a run over some banks (None for all), hold them, and say honestly how it ended.

    What killed runs left behind is closed and swept first.

    Raises:
        Busy: another run holds one of the banks; nothing was recorded.
    """
    run_id = uuid4()
    with hold_banks(place.database, place.tenant, banks or _all_banks(place), run_id) as lease:
        _start(place, run_id, kind, parameters)  # on record once it holds its banks; refused, it never began
        sweep_dead_runs(place)
        run = OpenRun(run_id, lease, run_folder(place.settings, str(run_id)) / schema_folder(place.tenant.schema), {})
        try:
            with logged_as(run=str(run_id)):
                yield run
        except BaseException as error:
            with suppress(RcllError):  # where the database is gone, the next run closes this one
                _finish(place, run_id, "failed", run.summary | {"error": type(error).__name__})
            raise
        finally:
            remove_folder(run.folder.parent)  # it holds memory texts
        _finish(place, run_id, run.status, run.summary)


def _all_banks(place: Place) -> list[str]:
    with place.database.connect() as conn:
        return list_banks(conn, place.tenant)


def _start(place: Place, run_id: UUID, kind: str, parameters: dict[str, Any]) -> None:
    settings = place.settings
    fingerprint = labelling_hash(load_taxonomy(settings.taxonomy), use_layers=settings.layers)
    with place.database.connect() as conn:
        start_run(conn, place.tenant, kind=kind, taxonomy_hash=fingerprint, parameters=parameters, run_id=run_id)


def _finish(place: Place, run_id: UUID, status: str, summary: dict[str, Any]) -> None:
    with place.database.connect() as conn:
        finish_run(conn, place.tenant, run_id, status=status, summary=summary)
        expire_changes(conn, place.tenant, days=place.settings.undo_days)
        expire_labels(conn, place.tenant, run_id, days=place.settings.undo_days)
