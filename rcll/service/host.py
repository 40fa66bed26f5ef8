"""What the routes ask of the server that they live in, and how its errors become answers."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Annotated, Any, Protocol

from fastapi import Depends, HTTPException, Request, status

from rcll.errors import Busy, DatabaseError, InputError, ModelError, RcllError, Transient, Unreachable
from rcll.service.bodies import RetainItem
from rcll.service.palace import Caller
from rcll.service.recall import Ask, Search
from rcll.store.recall import has_bank

_STATUS: tuple[tuple[type[RcllError], int], ...] = (
    (InputError, status.HTTP_422_UNPROCESSABLE_CONTENT),
    (Busy, status.HTTP_409_CONFLICT),
    (Transient, status.HTTP_503_SERVICE_UNAVAILABLE),
    (Unreachable, status.HTTP_503_SERVICE_UNAVAILABLE),
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


def admit(host: Host) -> Callable[[Request], Awaitable[None]]:
    """A dependency of every route: nobody gets further whom the host does not know."""

    async def admitted(request: Request) -> None:
        request.state.rcll = host, await host.caller(request)

    return admitted


def current_host(request: Request) -> Host:
    """The server of this request."""
    return request.state.rcll[0]


def current_caller(request: Request) -> Caller:
    """Who makes this request."""
    return request.state.rcll[1]


CurrentHost = Annotated[Host, Depends(current_host)]
CurrentCaller = Annotated[Caller, Depends(current_caller)]


async def one_line_errors() -> AsyncIterator[None]:
    """A dependency of every route: what rcll raises on purpose becomes an answer of its kind."""
    try:
        yield
    except RcllError as error:
        code = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        raise HTTPException(code, str(error)) from None


def require_read(caller: Caller, *banks: str) -> None:
    """403 unless the banks are open to the caller; it is not said whether they exist."""
    for bank in banks:
        if not caller.access.reads(bank):
            raise HTTPException(403, f"this key may not read bank '{bank[:64]}'")


def require_write(caller: Caller, *banks: str) -> None:
    """403 unless the caller may change the banks."""
    for bank in banks:
        if not caller.access.writes(bank):
            raise HTTPException(403, f"this key may not write bank '{bank[:64]}'")


async def require_bank(caller: Caller, bank: str) -> None:
    """403 unless the caller may read the bank, 404 where it does not exist."""
    require_read(caller, bank)
    async with caller.palace.pool.connection() as conn:
        if not await has_bank(conn, caller.palace.place.tenant, bank):
            raise HTTPException(404, f"bank '{bank[:64]}' does not exist; see GET /banks")
