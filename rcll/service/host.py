"""What the routes ask of the server that they live in, and how its errors become answers."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

import psycopg
from fastapi import HTTPException, Request, status

from rcll.errors import Busy, DatabaseError, InputError, ModelError, RcllError, Transient
from rcll.service.bodies import RetainItem
from rcll.service.palace import Caller
from rcll.service.recall import Ask, Search

_STATUS: tuple[tuple[type[RcllError], int], ...] = (
    (InputError, status.HTTP_422_UNPROCESSABLE_CONTENT),
    (Busy, status.HTTP_409_CONFLICT),
    (Transient, status.HTTP_503_SERVICE_UNAVAILABLE),
    (ModelError, status.HTTP_502_BAD_GATEWAY),
    (DatabaseError, status.HTTP_409_CONFLICT),
)


class Host(Protocol):
    """The server: who calls, and how units get in and are found."""

    async def caller(self, request: Request) -> Caller:
        """Who calls; 401 where that cannot be told."""
        ...

    async def retain(self, request: Request, caller: Caller, bank: str, items: Sequence[RetainItem]) -> dict[str, Any]:
        """Store what is in the items and label it."""
        ...

    def search(self, request: Request, ask: Ask) -> Search | None:
        """How units are found; None for the service's own search."""
        ...


async def one_line_errors() -> AsyncIterator[None]:
    """A dependency of every route: what rcll raises on purpose becomes an answer of its kind."""
    try:
        yield
    except RcllError as error:
        code = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        raise HTTPException(code, str(error)) from None
    except psycopg.OperationalError:
        raise HTTPException(503, "the database is not to be had; try again") from None


def require_read(caller: Caller, bank: str) -> None:
    """403 unless the bank is open to the caller; it is not said whether it exists."""
    if not caller.access.reads(bank):
        raise HTTPException(403, f"this key may not read bank '{bank[:64]}'")


def require_write(caller: Caller, bank: str) -> None:
    """403 unless the caller may change the bank."""
    if not caller.access.writes(bank):
        raise HTTPException(403, f"this key may not write bank '{bank[:64]}'")
