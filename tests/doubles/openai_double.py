"""A small server that speaks the OpenAI protocol over a real socket, with faults on demand.

It tests transport, parsing, retries and budgets, not the quality of answers: its summaries are the first
sentences of the notes that it is given, and its vectors are hashed words.
"""

import base64
import hashlib
import json
import math
import re
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

KEY = "test-key"
MODEL = "test-model"
UNKNOWN_MODEL = "no-such-model"

_NOTE = re.compile(r"^\[(note-\w+) (\d+)\]\n(.*?)\n\[/\1 \2\]$", re.DOTALL | re.MULTILINE)
_HASTE = {"retry-after": "0.01"}  # the client waits at least half a second unless the server says less


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one request; only what is set differs from a good answer."""

    status: int = 200
    code: str | None = None  # of an error body
    headers: dict[str, str] = field(default_factory=dict)
    content: Callable[[str], str] | None = None  # what becomes of the model's words
    message: dict[str, Any] = field(default_factory=dict)  # further fields of the message
    finish: str = "stop"
    body: bytes | None = None  # the whole response body instead
    wait_s: float = 0.0  # before anything is said
    dims: int | None = None  # length of vectors
    drop: bool = False  # close the connection without a word

    def after(self, seconds: float) -> "Fault":
        """The same fault with another Retry-After."""
        return replace(self, headers={"retry-after": str(seconds)})


def _edited(**changes: Any) -> Callable[[str], str]:
    return lambda good: json.dumps(json.loads(good) | changes)


EMPTY = Fault(content=lambda _: "")
BAD_JSON = Fault(content=lambda _: "Here is your summary: all is well.")
WRONG_JSON = Fault(content=lambda _: '{"summary": 3, "used": "all"}')
FENCED = Fault(content=lambda good: f"```json\n{good}\n```")
THINKING = Fault(content=lambda good: f"<think>{{perhaps}}</think>\n{good}")
TRUNCATED = Fault(content=lambda good: good[: len(good) // 2], finish="length")
CUT = Fault(content=lambda good: good[: len(good) // 2])
REFUSAL = Fault(content=lambda _: "", message={"refusal": "I cannot help with that."})
INVENTED = Fault(content=_edited(used=[1, 99]))
NO_SOURCE = Fault(content=_edited(used=[]))
TOO_LONG = Fault(content=_edited(summary="the same again and again " * 2_000))
HACKED = Fault(content=_edited(title="HACKED", summary="HACKED"))
NUL = Fault(content=lambda good: good.replace('"title": "', '"title": "\\u0000', 1))
NO_CHOICES = Fault(body=b'{"error": "out of memory"}')
BROKEN_BODY = Fault(body=b'{"id": "c1", "object": "chat.comp')
UNAUTHORISED = Fault(401, "invalid_api_key")
NO_MODEL = Fault(404, "model_not_found")
NO_QUOTA = Fault(429, "insufficient_quota", _HASTE)
NO_JSON_MODE = Fault(400, "unsupported_value")
RATE_LIMITED = Fault(429, "rate_limit_exceeded", _HASTE)
UNAVAILABLE = Fault(503, headers=_HASTE)
HANG = Fault(wait_s=60.0)
SLOW = Fault(wait_s=0.15)
DROPPED = Fault(drop=True)
WRONG_DIMS = Fault(dims=7)


@dataclass(frozen=True)
class Request:
    """What a client asked."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def text(self) -> str:
        """All message contents of a chat, or all inputs of an embedding call."""
        return "\n".join([m["content"] for m in self.body.get("messages", [])] + list(self.body.get("input", [])))


class OpenAIDouble:
    """Context manager; ``base_url`` is where it listens.

    Attributes:
        requests: all that were asked, in order.
        faults: one for each of the next requests; None lets one through.
        rule: decides the fault of each further request, by default none.
        dims: length of its vectors.
    """

    def __init__(self, dims: int = 256) -> None:
        self.dims = dims
        self.requests: list[Request] = []
        self.faults: deque[Fault | None] = deque()
        self.rule: Callable[[Request], Fault | None] = lambda _: None
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()
        with self._lock:
            for connection in self._open:
                connection.shutdown(socket.SHUT_RDWR)

    @property
    def n_requests(self) -> int:
        """How many requests arrived."""
        return len(self.requests)

    def answer(self, request: Request) -> tuple[Fault, bytes]:
        """The fault that applies (a good answer is one without a trait), and the body."""
        with self._lock:
            self.requests.append(request)
            is_planned = bool(self.faults)
            planned = self.faults.popleft() if self.faults else None
        fault = (planned if is_planned else self.rule(request)) or Fault()
        if request.headers.get("authorization") != f"Bearer {KEY}":
            fault = UNAUTHORISED
        elif request.body.get("model") == UNKNOWN_MODEL:
            fault = NO_MODEL
        if fault.wait_s:
            self._stopped.wait(fault.wait_s)
        if fault.body is not None:
            return fault, fault.body
        if fault.status != 200:
            error = {"message": f"injected {fault.status}", "type": "error", "code": fault.code}
            return fault, json.dumps({"error": error}).encode()
        reply = _embeddings if request.path.endswith("/embeddings") else _completion
        return fault, json.dumps(reply(request, fault, self.dims)).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        double = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                with double._lock:
                    double._open.add(self.connection)

            def finish(self) -> None:
                with double._lock:
                    double._open.discard(self.connection)
                super().finish()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                models = {
                    "object": "list",
                    "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "rcll"}],
                }
                self._reply(Fault(), json.dumps(models).encode())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                fault, reply = double.answer(Request(self.path, headers, body))
                if fault.drop or double._stopped.is_set():
                    self.close_connection = True
                else:
                    self._reply(fault, reply)

            def _reply(self, fault: Fault, reply: bytes) -> None:
                head = fault.headers | {"content-type": "application/json", "content-length": str(len(reply))}
                try:
                    self.send_response(fault.status)
                    for name, value in head.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(reply)
                except OSError:  # the client waited no longer
                    self.close_connection = True

        return Handler


def _completion(request: Request, fault: Fault, _dims: int) -> dict[str, Any]:
    good = _summary_of(request.text)
    content = fault.content(good) if fault.content else good
    message = {"role": "assistant", "content": content, "refusal": None} | fault.message
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": request.body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": fault.finish, "logprobs": None}],
        "usage": {"prompt_tokens": 70, "completion_tokens": 30, "total_tokens": 100},
    }


def _summary_of(prompt: str) -> str:
    """The first sentences of up to three notes; other prompts get some JSON."""
    notes = [(int(number), text) for _, number, text in _NOTE.findall(prompt)]
    if not notes:
        return '{"ok": true}'
    firsts = [(number, re.split(r"(?<=[.!?。])", text)[0].strip()) for number, text in notes[:3]]
    summary = " ".join(dict.fromkeys(text for _, text in firsts))
    title = " ".join(firsts[0][1].split()[:6])
    return json.dumps({"title": title, "summary": summary, "used": [n for n, _ in firsts]})


def _embeddings(request: Request, fault: Fault, dims: int) -> dict[str, Any]:
    inputs = request.body["input"]
    dims = fault.dims or request.body.get("dimensions") or dims
    vectors = [_vector(text, dims) for text in ([inputs] if isinstance(inputs, str) else inputs)]
    is_base64 = request.body.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": i, "embedding": _as_base64(vector) if is_base64 else vector}
        for i, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    # last first: a client has to go by the index
    return {"object": "list", "data": data[::-1], "model": request.body["model"], "usage": usage}


def _vector(text: str, dims: int) -> list[float]:
    """A bag of words, each hashed to a place and a sign; of length one."""
    vector = [0.0] * dims
    for word in re.findall(r"\w+", text.lower()):
        number = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big")
        vector[number % dims] += 1.0 if number >> 63 else -1.0
    length = math.sqrt(sum(x * x for x in vector)) or 1.0
    return [x / length for x in vector]


def _as_base64(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
