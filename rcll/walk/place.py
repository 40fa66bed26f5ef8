"""Where a step works: settings, database and tenant, opened anew inside each task.

Tasks get the name of a schema, never a connection or an address: what travels through Prefect must pickle
and must not hold a password.
"""

import difflib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rcll.errors import DatabaseError, InputError
from rcll.settings import Settings, load_settings
from rcll.store.catalog import Tenant, read_tenants
from rcll.store.connect import Database, open_database
from rcll.store.extract import list_banks
from rcll.store.lease import refuse_busy
from rcll.store.migrate import create_base
from rcll.store.pace import LoadLimits
from rcll.store.rights import refuse_lacking_rights


@dataclass(frozen=True, slots=True)
class Place:
    """One tenant of one database, and the settings under which it was opened."""

    settings: Settings
    database: Database
    tenant: Tenant


def load_limits(settings: Settings) -> LoadLimits:
    """What the settings allow the loader."""
    return LoadLimits(settings.batch, settings.rate, settings.vacuum)


@contextmanager
def open_places(schemas: Sequence[str] = ()) -> Generator[list[Place]]:
    """Open the database and every tenant in it, or those of the named schemas.

    The embedded server gets base tables of its own where it is empty.
    """
    settings = load_settings()
    with open_database(settings) as database:
        if database.is_embedded:
            create_base(database)
        with database.connect() as conn:
            tenants = read_tenants(conn, schemas)
        yield [Place(settings, database, tenant) for tenant in tenants]


@contextmanager
def open_place(schema: str) -> Generator[Place]:
    """Open one tenant."""
    with open_places([schema]) as places:
        if len(places) != 1:
            raise DatabaseError(f"schema '{schema}' holds no memory units any more; expected one tenant")
        yield places[0]


def places_of(places: Sequence[Place], banks: Sequence[str] | None) -> list[tuple[Place, list[str] | None]]:
    """Tenants that hold one of the named banks, each with those it holds; all of them where none is named.

    Raises:
        InputError: a bank that no tenant has, with the names that come closest.
    """
    if not banks:
        return [(place, None) for place in places]
    known: list[str] = []
    chosen: list[tuple[Place, list[str] | None]] = []
    for place in places:
        with place.database.connect() as conn:
            names = list_banks(conn, place.tenant)
        known += names
        if held := sorted(set(banks) & set(names)):
            chosen.append((place, held))
    for bank in banks:
        if bank not in known:
            raise InputError(f"bank '{bank}' does not exist in {_schemas(places)}; {_hint(bank, known)}")
    return chosen


def refuse_hopeless(chosen: Sequence[tuple[Place, list[str] | None]]) -> None:
    """Look, before a run begins, whether it may write, and whether another holds one of its banks (None: all).

    Raises:
        DatabaseError: the role lacks rights; the message names them.
        Busy: another run holds a bank; the message says who, and since when.
    """
    for place, banks in chosen:
        with place.database.connect() as conn:
            refuse_lacking_rights(conn, place.tenant)
            if place.tenant.migrated:
                refuse_busy(conn, place.tenant, banks or list_banks(conn, place.tenant))


def _schemas(places: Sequence[Place]) -> str:
    return "schema " + ", ".join(f"'{place.tenant.schema}'" for place in places)


def _hint(bank: str, known: Sequence[str]) -> str:
    if near := difflib.get_close_matches(bank, known, n=3):
        return f"did you mean {' or '.join(repr(name) for name in near)}?"
    if not known:
        return "there are no banks at all"
    return f"there are {len(known)}, for example '{known[0]}'; see rcll status"
