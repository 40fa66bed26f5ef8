"""What a process sees of a run's surroundings: two that shall work on one run must see the same."""

from datetime import datetime
from typing import Any

from upath import UPath

from rcll import __version__
from rcll.errors import InputError, RcllError
from rcll.settings import Settings, load_settings
from rcll.store.ledger import database_identity
from rcll.store.parts import storage_path
from rcll.taxonomy import load_taxonomy
from rcll.walk.labels import labelling_hash
from rcll.walk.place import open_places

#: Settings that decide what a step computes; addresses, folders and secrets are not among them.
_DECIDING = (
    *("closet_threshold", "summary_model", "max_calls", "max_tokens", "embed_model"),
    *("tunnel_pairs", "private", "tunnels_per_unit", "archive_sources"),
)


#: Clocks that are further apart are worth a word.
_CLOCK_SECONDS = 60


def surroundings(mark: str) -> dict[str, str]:
    """Describe them, by what a user would have to correct.

    Args:
        mark: name of a file under RCLL_STORAGE that the flow has written.
    """
    try:
        settings = load_settings()
        return {
            "rcll": __version__,
            "RCLL_STORAGE": _storage(settings, mark),
            "RCLL_TAXONOMY and RCLL_LAYERS": _rules(settings),
            **{f"RCLL_{name.upper()}": str(getattr(settings, name)) for name in _DECIDING},
            "RCLL_DATABASE_URL": _database(),
        }
    except RcllError as error:
        return {"settings": str(error)}


def first_difference(ours: dict[str, str], theirs: dict[str, Any]) -> str | None:
    """What the other process sees otherwise, as a line; None where nothing is."""
    for name in [*ours, *(set(theirs) - set(ours))]:
        if ours.get(name) != theirs.get(name):
            return f"{name} is {theirs.get(name, 'unknown')} there and {ours.get(name, 'unknown')} here"
    return None


def write_mark(settings: Settings, name: str) -> UPath:
    """Leave a file that the others look for.

    Raises:
        InputError: it cannot be written.
    """
    path = storage_path(settings) / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    except Exception as error:  # noqa: BLE001 - every kind of store has errors of its own
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise InputError(
            f"RCLL_STORAGE '{settings.storage_dir}' cannot be written: {reason}; expected a folder or a store that may "
            "be; nothing was written"
        ) from None
    return path


def clock_difference(ours: datetime, databases: datetime) -> str | None:
    """A line about two clocks that disagree; None where they do not."""
    seconds = (ours - databases).total_seconds()
    if abs(seconds) <= _CLOCK_SECONDS:
        return None
    return (
        f"this machine's clock is {abs(seconds):,.0f} s {'ahead of' if seconds > 0 else 'behind'} the database's; "
        "leases, runs and pause windows go by the database's, Prefect's schedules by its server's; set the clock"
    )


def _storage(settings: Settings, mark: str) -> str:
    try:
        (storage_path(settings) / mark).read_text()
    except Exception as error:  # noqa: BLE001 - every kind of store has errors of its own
        return f"a place without the flow's files ({type(error).__name__})"
    return "the flow's"


def _rules(settings: Settings) -> str:
    return f"rules {labelling_hash(load_taxonomy(settings.taxonomy), use_layers=settings.layers)[:12]}"


def _database() -> str:
    with open_places() as places:
        if not places:
            return "a database without memories"
        with places[0].database.connect() as conn:
            return " ".join(database_identity(conn))
