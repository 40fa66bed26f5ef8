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
        began, exchange = time.perf_counter(), _Exchange(receive, send, self._max_body)
        try:
            await self._answer(scope, exchange)
        finally:
            _log(scope, exchange.status or 500, time.perf_counter() - began)

    async def _answer(self, scope: Scope, exchange: "_Exchange") -> None:
        try:
            exchange.check(_declared_length(scope))
            async with asyncio.timeout(self._seconds):
                await self._app(scope, exchange.receive, exchange.send)
        except _TooLargeError:
            pass  # said below, also where the application took it for a body that it cannot parse
        except TimeoutError:
            await exchange.refuse(scope, 503, f"no answer within {self._seconds:.0f} s; ask for less")
        if exchange.is_too_large:
            await exchange.refuse(scope, 413, f"the body is over {self._max_body:,} bytes; send less")


class _Exchange:
    """One request and its answer: counts what comes, and lets nothing of the application out once that was too much."""

    def __init__(self, receive: Receive, send: Send, max_body: int) -> None:
        self.status: int | None = None
        self.is_too_large = False
        self._receive, self._send, self._max_body, self._n_bytes = receive, send, max_body, 0

    async def receive(self) -> Message:
        """The next part of the body."""
        message = await self._receive()
        self._n_bytes += len(message.get("body", b""))
        self.check(self._n_bytes)
        return message

    async def send(self, message: Message) -> None:
        """A part of the application's answer."""
        if self.is_too_large and self.status is None:
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)

    def check(self, n_bytes: int) -> None:
        """Stop where the body is too large."""
        if n_bytes > self._max_body:
            self.is_too_large = True
            raise _TooLargeError

    async def refuse(self, scope: Scope, code: int, detail: str) -> None:
        """Answer in place of the application, unless it has begun to."""
        if self.status is None:
            self.status = code
            answer = JSONResponse({"detail": detail}, code, headers={"connection": "close"})
            await answer(scope, self._receive, self._send)


def _declared_length(scope: Scope) -> int:
    declared = dict(scope["headers"]).get(b"content-length", b"0")
    return int(declared) if declared.isdigit() else 0


def _log(scope: Scope, code: int, seconds: float) -> None:
    """One line of JSON; the route's pattern in place of its path, and no query: texts stand in them."""
    route = getattr(scope.get("route"), "path", "")
    caller = scope.get("state", {}).get("caller", "")
    line = {"method": scope["method"], "route": route, "status": code, "ms": round(1000 * seconds, 1), "caller": caller}
    logger.info(json.dumps(line))
