"""What a run keeps on disk while it works, and what a killed one left behind."""

from upath import UPath

from rcll.settings import Settings
from rcll.store.ledger import list_runs
from rcll.store.parts import remove_folder, storage_path
from rcll.walk.place import Place

#: Runs looked at; an older one has been swept long ago.
_LOOKED_AT = 1_000


def run_folder(settings: Settings, run_id: str) -> UPath:
    """Where a run keeps its Parquet parts; they hold memory texts until they are classified."""
    return storage_path(settings) / "runs" / run_id


def sweep_dead_runs(place: Place) -> None:
    """Delete the parts of runs that this tenant knows to be over."""
    with place.database.connect() as conn:
        over = [run.run_id for run in list_runs(conn, place.tenant, limit=_LOOKED_AT) if run.status != "running"]
    for run_id in over:
        remove_folder(run_folder(place.settings, run_id))
