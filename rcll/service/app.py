"""The server of our own: tenants of one database, opened by keys."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import limits
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import JSONResponse
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import MovingWindowRateLimiter
from pydantic import BaseModel

from rcll import __version__
from rcll.errors import DatabaseError
from rcll.service.access import EVERYTHING, Access, is_secret, key_number
from rcll.service.bodies import RetainItem
from rcll.service.guard import Guard
from rcll.service.palace import Caller, OwnSpace, Palace
from rcll.service.recall import Ask, Search
from rcll.service.routes import build_router
from rcll.service.units import store_items
from rcll.store.keys import find_key, has_keys
from rcll.store.pool import Pool
from rcll.store.recall import vector_indexes
from rcll.taxonomy import load_taxonomy
from rcll.walk.place import Place

POOL_SIZE = 10


class Health(BaseModel):
    """Whether the database answers."""

    status: str


class Version(BaseModel):
    """What answers."""

    rcll: str


class OwnHost:
    """Palaces by tenant; a key opens the tenant in which it is kept, and without any key there is one tenant."""

    def __init__(self, rate: str | None, *, needs_key: bool) -> None:
        self.palaces: list[Palace] = []
        self._needs_key = needs_key
        self._rate = limits.parse(rate) if rate else None
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    async def caller(self, request: Request) -> Caller:
        """Who calls: by a key in Authorization or X-API-Key; everybody where no key exists."""
        sent = _sent_key(request)
        await self._count(sent or (request.client.host if request.client else ""))
        found = await self._open(sent) if sent else None
        if found is None and (self._needs_key or len(self.palaces) != 1 or await self._are_keys()):
            reason = "this key is not known, or revoked" if sent else "no key; expected Authorization: Bearer KEY"
            raise HTTPException(401, reason, {"WWW-Authenticate": "Bearer"})
        caller = found or Caller(self.palaces[0], EVERYTHING, "anybody")
        request.state.caller = caller.name
        return caller

    async def retain(self, request: Request, caller: Caller, bank: str, items: Sequence[RetainItem]) -> dict[str, Any]:  # noqa: ARG002 - the other host needs the request
        """Each item becomes one unit."""
        return await store_items(caller.palace, bank, items)

    def search(self, request: Request, ask: Ask) -> Search | None:  # noqa: ARG002
        """The service's own search."""
        return None

    async def _open(self, sent: str) -> Caller | None:
        number = key_number(sent)
        if number is None:
            return None
        for palace in self.palaces:
            async with palace.pool.connection() as conn:
                kept = await find_key(conn, palace.place.tenant, number)
            if kept and is_secret(sent, kept.hash):
                return Caller(palace, Access(tuple(kept.may_read), tuple(kept.may_write)), number)
        return None

    async def _are_keys(self) -> bool:
        for palace in self.palaces:
            async with palace.pool.connection() as conn:
                if await has_keys(conn, palace.place.tenant):
                    return True
        return False

    async def _count(self, who: str) -> None:
        if self._rate and not await self._limiter.hit(self._rate, who):
            window = await self._limiter.get_window_stats(self._rate, who)
            wait = max(1, round(window.reset_time - time.time()))
            raise HTTPException(429, f"more than {self._rate}; try again in {wait} s", {"Retry-After": str(wait)})


def make_app(places: Sequence[Place], *, rate: str | None = None, needs_key: bool = False) -> FastAPI:
    """The application for some tenants of one database.

    Args:
        places: the tenants; migrated.
        rate: calls of one key, such as 100/second; None for any number.
        needs_key: nobody gets in without a key, also where none exists any more; else the server is taken to listen
            on loopback, and answers only to its names, so that no web page reaches it through a name of its own.

    Raises:
        DatabaseError: a tenant is not migrated.
    """
    unready = [place.tenant.schema for place in places if not place.tenant.migrated]
    if unready:
        raise DatabaseError(f"schema '{unready[0]}' is not migrated; expected rcll's columns; run rcll migrate")
    host = OwnHost(rate, needs_key=needs_key)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:  # noqa: ARG001 - FastAPI passes it
        async with AsyncExitStack() as stack:
            pool = Pool(places[0].database, size=POOL_SIZE)
            await pool.open()
            stack.push_async_callback(pool.close)
            host.palaces = [await _build_palace(place, pool) for place in places]
            yield

    app = FastAPI(title="rcll", version=__version__, summary="The palace answers.", lifespan=lifespan)
    app.include_router(build_router(host))
    _add_probes(app, host)
    app.add_exception_handler(RequestValidationError, _explain_fields)
    if not needs_key:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost", "["])  # "[": [::1]
    app.add_middleware(Guard)
    return app


async def _build_palace(place: Place, pool: Pool) -> Palace:
    async with pool.connection() as conn:
        has_index, has_types = await vector_indexes(conn, place.tenant)
    taxonomy = load_taxonomy(place.settings.taxonomy)
    space = OwnSpace(place, pool)
    return Palace(place=place, pool=pool, taxonomy=taxonomy, space=space, has_types=has_types, has_index=has_index)


def _add_probes(app: FastAPI, host: OwnHost) -> None:
    @app.get("/health", response_model=Health, tags=["server"], summary="Whether the database answers")
    async def health() -> dict[str, str]:
        """Needs no key."""
        async with host.palaces[0].pool.connection():
            return {"status": "healthy"}

    @app.get("/version", response_model=Version, tags=["server"], summary="What answers")
    async def version() -> dict[str, str]:
        """Needs no key."""
        return {"rcll": __version__}


def _sent_key(request: Request) -> str | None:
    """The key as sent: a bearer token, bare, or in X-API-Key."""
    header = request.headers.get("authorization") or request.headers.get("x-api-key")
    if header is None:
        return None
    scheme, _, rest = header.partition(" ")
    return rest.strip() if scheme.lower() == "bearer" else header.strip()


async def _explain_fields(request: Request, error: Exception) -> Response:  # noqa: ARG001 - Starlette's signature
    """422 with place and reason of each fault; what was sent is not repeated, as it may be no valid text."""
    assert isinstance(error, RequestValidationError)
    faults = [{"loc": [_shown(part) for part in each["loc"]], "msg": _shown(each["msg"])} for each in error.errors()]
    return JSONResponse({"detail": faults[:20]}, 422)


def _shown(part: Any) -> Any:
    return part if isinstance(part, int) else str(part)[:200].encode("ascii", "backslashreplace").decode()
