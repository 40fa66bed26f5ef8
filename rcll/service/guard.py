"""What stands before the routes of the own server: sizes, time, and a log that holds no texts."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.responses import JSONResponse

logger = logging.getLogger("rcll.access")

#: Bytes of a body at most: some hundred long memories.
MAX_BODY = 8_000_000
#: Seconds after which an answer is given up.
REQUEST_SECONDS = 60.0

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class _TooLargeError(Exception):
    """The body went over the limit while it came."""


class Guard:
    """Refuses bodies that are too large, gives up on what takes too long, and logs method, route, status and time."""

    def __init__(self, app: App, *, max_body: int = MAX_BODY, seconds: float = REQUEST_SECONDS) -> None:
        self._app, self._max_body, self._seconds = app, max_body, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass on what is none."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, codes = time.perf_counter(), list[int]()

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                codes.append(message["status"])
            await send(message)

        try:
            await self._answer(scope, receive, sent, codes)
        finally:
            _log(scope, codes[0] if codes else 500, time.perf_counter() - began)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, codes: list[int]) -> None:
        try:
            _check_length(_declared_length(scope), self._max_body)
            async with asyncio.timeout(self._seconds):
                await self._app(scope, self._counted(receive), send)
        except _TooLargeError:
            await _refuse(scope, receive, send, codes, 413, f"the body is over {self._max_body:,} bytes; send less")
        except TimeoutError:
            await _refuse(scope, receive, send, codes, 503, f"no answer within {self._seconds:.0f} s; ask for less")

    def _counted(self, receive: Receive) -> Receive:
        n_bytes = 0

        async def counted() -> Message:
            nonlocal n_bytes
            message = await receive()
            n_bytes += len(message.get("body", b""))
            _check_length(n_bytes, self._max_body)
            return message

        return counted


def _check_length(n_bytes: int, most: int) -> None:
    if n_bytes > most:
        raise _TooLargeError


def _declared_length(scope: Scope) -> int:
    declared = dict(scope["headers"]).get(b"content-length", b"0")
    return int(declared) if declared.isdigit() else 0


async def _refuse(scope: Scope, receive: Receive, send: Send, codes: list[int], code: int, detail: str) -> None:
    if not codes:
        await JSONResponse({"detail": detail}, code, headers={"connection": "close"})(scope, receive, send)


def _log(scope: Scope, code: int, seconds: float) -> None:
    """One line of JSON; the route's pattern in place of its path, and no query: texts stand in them."""
    route = getattr(scope.get("route"), "path", "")
    caller = scope.get("state", {}).get("caller", "")
    line = {"method": scope["method"], "route": route, "status": code, "ms": round(1000 * seconds, 1), "caller": caller}
    logger.info(json.dumps(line))
