"""What a run keeps on disk while it works, and what a killed one left behind."""

from upath import UPath

from rcll.settings import Settings
from rcll.store.ledger import list_runs
from rcll.store.parts import remove_folder, storage_path
from rcll.walk.place import Place

#: Runs looked at; an older one has been swept long ago.
_LOOKED_AT = 1_000
_RUNS = "runs"


def run_folder(settings: Settings, run_id: str) -> UPath:
    """Where a run keeps its Parquet parts; they hold memory texts until they are classified."""
    return storage_path(settings) / _RUNS / run_id


def run_of_part(settings: Settings, path: UPath) -> str | None:
    """Id of the run in whose folder a part or a folder lies; None for those of a plan."""
    runs = storage_path(settings) / _RUNS
    return path.relative_to(runs).parts[0] if path.is_relative_to(runs) and path != runs else None


def sweep_dead_runs(place: Place) -> None:
    """Delete the parts of runs that this tenant knows to be over."""
    with place.database.connect() as conn:
        over = [run.run_id for run in list_runs(conn, place.tenant, limit=_LOOKED_AT) if run.status != "running"]
    for run_id in over:
        remove_folder(run_folder(place.settings, run_id))
