"""Ids as people type them: the first digits are enough where only one unit, or one run, has them."""

from collections.abc import Callable, Sequence
from uuid import UUID

from rcll.errors import InputError
from rcll.store.catalog import Tenant
from rcll.store.connect import Connection
from rcll.walk.place import Place

#: Digits below which an id is more likely a slip than a choice.
LEAST_DIGITS = 4
_DIGITS = 32

Matches = Callable[[Connection, Tenant, tuple[str, str]], list[str]]


def id_bounds(given: str, what: str) -> tuple[str, str]:
    """The first and the last uuid that begin as given.

    Raises:
        InputError: that is no beginning of a uuid.
    """
    digits = given.strip().removesuffix("…").removesuffix("...").replace("-", "").lower()
    if not LEAST_DIGITS <= len(digits) <= _DIGITS or set(digits) - set("0123456789abcdef"):
        raise InputError(
            f"'{' '.join(given.split())[:60]}' is no {what} id; expected a uuid, or its first {LEAST_DIGITS} digits "
            f"or more"
        )
    return str(UUID(digits.ljust(_DIGITS, "0"))), str(UUID(digits.ljust(_DIGITS, "f")))


def find_id(places: Sequence[Place], given: str, matches: Matches, *, what: str, hint: str) -> tuple[Place, str]:
    """The one unit or run whose id begins as given, and where it is.

    Args:
        places: tenants to look in; those that are not migrated are passed over.
        given: a uuid or its first digits.
        matches: store function that lists the first few ids between two.
        what: ``unit`` or ``run``, for messages.
        hint: what to expect in place of an unknown id.

    Raises:
        InputError: none, or more than one.
    """
    bounds = id_bounds(given, what)
    found: list[tuple[Place, str]] = []
    for place in places:
        if place.tenant.migrated:
            with place.database.connect() as conn:
                found += [(place, each) for each in matches(conn, place.tenant, bounds)]
    if not found:
        looked = ", ".join(place.tenant.schema for place in places)
        raise InputError(f"no {what} '{given[:60]}' in schema {looked}; expected {hint}")
    if len(found) > 1:
        ids = ", ".join(each for _, each in found[:3])
        raise InputError(f"'{given}' begins more than one {what} id ({ids}); give more of its digits")
    return found[0]


def full_ids(places: Sequence[Place], given: Sequence[str], matches: Matches, *, what: str, hint: str) -> list[str]:
    """Ids as they are stored; only short ones are looked up. See :func:`find_id`."""
    bounds = [id_bounds(each, what) for each in given]
    return [
        low if low == high else find_id(places, each, matches, what=what, hint=hint)[1]
        for each, (low, high) in zip(given, bounds, strict=True)
    ]
