"""Ways to recall, all asked the same: plain pgvector with a filter, rcll, and a Hindsight server's own recall."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import numpy as np
from psycopg import sql

from bench.service_data import BANK, Question
from rcll.service.access import EVERYTHING
from rcll.service.palace import Caller, Palace
from rcll.service.recall import Ask, recall
from rcll.settings import Settings
from rcll.stages.recall import Filters
from rcll.store.catalog import Tenant
from rcll.store.connect import Database
from rcll.store.pool import Pool
from rcll.store.recall import vector_indexes, vector_text
from rcll.taxonomy import load_taxonomy
from rcll.walk.place import Place

N_RESULTS = 20
#: A recall: ids of the units that it found.
Way = Callable[[Question], Awaitable[set[str]]]

_BRANCH = """
(SELECT id, text, embedding <=> %(vector)s::vector AS distance FROM memory_units
 WHERE bank_id = '{bank}' AND fact_type = '{fact_type}' AND (%(room)s::text IS NULL OR room = %(room)s) AND layer <= 2
 ORDER BY embedding <=> %(vector)s::vector LIMIT {limit})
"""
_BRANCHES = " UNION ALL ".join(
    _BRANCH.format(bank=BANK, fact_type=fact_type, limit=N_RESULTS)
    for fact_type in ("world", "experience", "observation")
)
_PLAIN = f"SELECT id::text, text, distance FROM ({_BRANCHES}) found ORDER BY distance, id LIMIT {N_RESULTS}"
_EXACT = f"""
WITH near AS MATERIALIZED (
    SELECT id, embedding <=> %(vector)s::vector AS distance FROM memory_units
    WHERE bank_id = '{BANK}' AND (%(room)s::text IS NULL OR room = %(room)s) AND layer <= 2)
SELECT id::text FROM near ORDER BY distance, id LIMIT {N_RESULTS}
"""


@dataclass(frozen=True)
class Given:
    """A space in which the vectors of the questions are known, so that no embedder's time is measured."""

    vectors: Mapping[str, np.ndarray]

    async def embed(self, bank: str, texts: Sequence[str]) -> np.ndarray:  # noqa: ARG002 - of any bank
        """Rows in order."""
        return np.array([self.vectors[text] for text in texts])


def exact(database: Database, question: Question) -> set[str]:
    """The true nearest units."""
    values = {"vector": vector_text(question.vector), "room": question.room}
    with database.connect() as conn:
        return {unit_id for (unit_id,) in conn.execute(_EXACT, values).fetchall()}


def plain(pool: Pool, scan: str) -> Way:
    """One statement over the same indexes, ``hnsw.ef_search = 200`` as Hindsight sets it."""

    async def ask(question: Question) -> set[str]:
        values = {"vector": vector_text(question.vector), "room": question.room}
        async with pool.connection() as conn:
            # once a connection, as a server does when it opens one
            if not getattr(conn, "bench_scan", None):
                await conn.execute(sql.SQL("SET hnsw.ef_search = 200; SET hnsw.iterative_scan = {}").format(scan))
                conn.bench_scan = scan  # pyright: ignore[reportAttributeAccessIssue]
            return {row[0] for row in await (await conn.execute(_PLAIN, values)).fetchall()}

    return ask


async def ours(place: Place, pool: Pool, asked: Sequence[Question]) -> Way:
    """The service's recall less HTTP and embedding: critical units, closets, tunnels and rows included."""
    async with pool.connection() as conn:
        has_index, has_types = await vector_indexes(conn, place.tenant)
    space = Given({question.name: question.vector for question in asked})
    taxonomy = load_taxonomy(None)
    palace = Palace(place=place, pool=pool, taxonomy=taxonomy, space=space, has_types=has_types, has_index=has_index)
    caller = Caller(palace, EVERYTHING, "bench")

    async def ask(question: Question) -> set[str]:
        filters = Filters(rooms=(question.room,) if question.room else None)
        call = Ask(bank=BANK, query=question.name, filters=filters, limit=N_RESULTS, l0_limit=50, tunnels=True)
        answer = await recall(caller, call)
        return {unit["id"] for unit in [*answer["results"], *answer["critical"]]}

    return ask


def place_of(database: Database, tenant: Tenant) -> Place:
    """The database as a walk sees it."""
    return Place(Settings(home=Path("/nonexistent")), database, tenant)


def over_http(client: httpx.AsyncClient) -> Way:
    """Hindsight's own recall; it knows no rooms, and takes as many tokens as it needs for the same number of units."""

    async def ask(question: Question) -> set[str]:
        body = {"query": question.name, "budget": "mid", "max_tokens": 4096}
        body["types"] = ["world", "experience", "observation"]
        answer = await client.post(f"/v1/default/banks/{BANK}/memories/recall", json=body)
        answer.raise_for_status()
        return {result["id"] for result in answer.json()["results"][:N_RESULTS]}

    return ask


@contextlib.contextmanager
def serving_vectors(asked: Sequence[Question]) -> Generator[str]:
    """An OpenAI embeddings endpoint that knows the vectors of the questions; its address."""
    vectors = {question.name: question.vector.tolist() for question in asked}
    blank = [0.01] * len(asked[0].vector)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
            texts = [sent["input"]] if isinstance(sent["input"], str) else sent["input"]
            data = [
                {"object": "embedding", "index": n, "embedding": vectors.get(text, blank)}
                for n, text in enumerate(texts)
            ]
            body = json.dumps({"object": "list", "model": sent["model"], "data": data, "usage": _USAGE}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()


_USAGE = {"prompt_tokens": 1, "total_tokens": 1}


async def in_turn(way: Way, asked: Sequence[Question], n_at_once: int) -> tuple[list[float], list[set[str]]]:
    """Ask all questions, some at once; milliseconds and finds of each."""
    loop = asyncio.get_running_loop()
    took, found = [0.0] * len(asked), [set[str]()] * len(asked)
    left = iter(range(len(asked)))

    async def work() -> None:
        for n in left:
            began = loop.time()
            found[n] = await way(asked[n])
            took[n] = 1000 * (loop.time() - began)

    await asyncio.gather(*(work() for _ in range(n_at_once)))
    return took, found
