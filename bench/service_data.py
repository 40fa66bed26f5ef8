"""The database of bench/service: that of bench/load, labelled by rcll's own loader, rooms that share a matter.

A room is a share of the topics round which bench/load_data draws its vectors, so that the units of a room lie
together as they do in a bank, and a question has a room of its own and rooms that have nothing to do with it.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from bench.load import Bench
from bench.load_data import BANKS, Size, topics_of
from bench.load_ways import Job, page_phased, plan_everything
from rcll.store.catalog import Tenant, read_tenants
from rcll.store.connect import Database
from rcll.store.extract import extract_embeddings
from rcll.store.migrate import migrate

#: Share of the topics, and so of the units, that each room has; the rest is in general.
ROOMS = {"ui": 0.01, "auth": 0.04, "deployment": 0.10, "schema": 0.20, "infrastructure": 0.30}
REST = "general"
#: The bank that is asked.
BANK = next(iter(BANKS))
N_CRITICAL, N_TUNNELS = 20, 2_000

_TUNNELS = """
INSERT INTO tunnels (id, source_unit_id, target_unit_id, source_bank_id, target_bank_id, relationship, score, method)
SELECT gen_random_uuid(), a.id, b.id, 'alpha', 'beta', 'same_concept', 0.8, 'auto'
FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM memory_units WHERE bank_id = 'alpha') a
JOIN (SELECT id, row_number() OVER (ORDER BY id) AS n FROM memory_units WHERE bank_id = 'beta') b USING (n)
WHERE n <= %s
"""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a vector, the room that it belongs to, and the room that the answer must come from, if any."""

    name: str
    vector: np.ndarray
    room: str | None


def ready(bench: Bench, size: Size) -> tuple[Database, Tenant]:
    """The labelled database of a size; it is made where it is not there yet."""
    bench.make(size)
    name = f"service_{size.name}"
    database = Database(bench.server.url(name), is_embedded=True)
    with Database(bench.server.url("postgres"), is_embedded=True).connect() as conn:
        is_there = conn.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchone() is not None
    if not is_there:
        bench.admin(f"DROP DATABASE IF EXISTS {name}_draft")
        bench.admin(f"CREATE DATABASE {name}_draft TEMPLATE {size.name} STRATEGY file_copy")
        _label(Database(bench.server.url(f"{name}_draft"), is_embedded=True), size)
        bench.admin(f"ALTER DATABASE {name}_draft RENAME TO {name}")
    with database.connect() as conn:
        migrate(database, read_tenants(conn)[0])  # of a database that an older rcll has made
        (tenant,) = read_tenants(conn)
    return database, tenant


def questions(dims: int, n_each: int, asked: str | None, *, is_own: bool, seed: int = 11) -> list[Question]:
    """Vectors near a topic of the room asked for, or of the other rooms; of any room where none is asked for."""
    rng = np.random.default_rng(seed)
    topics, rooms = topics_of(dims), _topic_rooms(len(topics_of(dims)))
    mine = np.array([asked is None or (room == asked) == is_own for room in rooms])
    chosen = rng.choice(np.flatnonzero(mine), n_each)
    vectors = topics[chosen] + rng.standard_normal((n_each, dims)).astype(np.float32) * (1.1 / np.sqrt(dims))
    return [Question(f"{asked} {is_own} {n}", vector, asked) for n, vector in enumerate(vectors)]


def _topic_rooms(n_topics: int) -> list[str]:
    """Room of each topic."""
    rooms = [room for room, share in ROOMS.items() for _ in range(round(share * n_topics))]
    return rooms + [REST] * (n_topics - len(rooms))


def _label(database: Database, size: Size) -> None:
    with database.connect() as conn:
        (tenant,) = read_tenants(conn)
        migrate(database, tenant)
        plan = plan_everything(database)
        vectors = extract_embeddings(conn, tenant, plan["unit_id"].to_list())
        topics = topics_of(size.dims)
        nearest = np.concatenate([(part @ topics.T).argmax(axis=1) for part in np.array_split(vectors, 40)])
        rooms = np.array(_topic_rooms(len(topics)))[nearest]
        layers = np.full(len(plan), 2, dtype=np.int16)
        layers[np.random.default_rng(3).choice(len(plan), N_CRITICAL, replace=False)] = 0
        labelled = plan.with_columns(room=pl.Series(rooms.tolist()), layer=pl.Series(layers).cast(plan["layer"].dtype))
        page_phased(Job(database, labelled))
        conn.execute(_TUNNELS, [N_TUNNELS])
        conn.execute("VACUUM (ANALYZE)")
