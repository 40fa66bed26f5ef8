"""Finding tunnels in a large room: ours, all pairs, and a pgvector query for each unit.

``python -m bench.tunnels [--sizes 20000 200000] [--queries 300] [--home DIR]``

A room of ten banks at 384 dimensions (bench/tunnels_room). *Ours* is ``link_units``, from units and vectors to
tunnels; its memory is the peak of the whole process, room and interpreter included. *All pairs* compares every unit
with every other by the same products; for a large room some thousand rows of it are run and multiplied. *Query per
unit* asks each other bank's HNSW index, of Hindsight's definition, for the nearest units (``hnsw.ef_search = 200``, as
its server sets; one fact type, though a bank of three has three indexes); some hundred units are asked and multiplied,
and the CPU is that of the server alone. Sequential scans are off in that session, and its plan must name the index of
every other bank: otherwise the planner may rather sort the units of each. Recall is the share of the exact nearest
units of linkable banks, above the cosine that counts in the room, that a way finds for the sampled units. A room of
two sizes says how cost grows.
"""

import argparse
import re
import resource
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import psutil
import psycopg

from bench.load import Bench, started
from bench.tunnels_room import DIMS, N_BANKS, Room, make_room
from rcll.stages.tunnels import TunnelParams, link_units
from rcll.stages.tunnels.neighbours import centred, nearest_pairs, sample_cosines

#: Rows of all pairs that are run where the whole would take too long.
SAMPLED_ROWS = 4_096
_TABLE = f"""
CREATE TABLE memory_units (id int PRIMARY KEY, bank_id text NOT NULL, fact_type text NOT NULL DEFAULT 'world',
                           embedding vector({DIMS}));
ALTER TABLE memory_units ALTER embedding SET STORAGE external;
"""


@dataclass(frozen=True)
class Cost:
    """Seconds of one way, for the whole room."""

    wall: float
    cpu: float


class Clock:
    """Wall and CPU seconds of this process, or of others, since it was made."""

    def __init__(self, *others: psutil.Process) -> None:
        self.others = others
        self.wall, self.cpu = time.perf_counter(), self._cpu()

    def cost(self, times: float = 1.0) -> Cost:
        """What has passed, multiplied."""
        return Cost((time.perf_counter() - self.wall) * times, (self._cpu() - self.cpu) * times)

    def _cpu(self) -> float:
        return sum(sum(other.cpu_times()[:2]) for other in self.others) if self.others else time.process_time()


@dataclass(frozen=True)
class Nearest:
    """The exact nearest units abroad of some units, by row; those above the cosine that counts."""

    vectors: np.ndarray
    bank: np.ndarray
    floor: float
    of: dict[int, list[int]]


def allowed_all() -> np.ndarray:
    """Every bank with every other."""
    return ~np.eye(N_BANKS, dtype=np.bool_)


def run_ours(room: Room) -> tuple[Cost, int]:
    """``link_units`` over the whole room; its cost and how many tunnels there are."""
    clock = Clock()
    tunnels = link_units(room.units, room.embeddings, allowed_all(), TunnelParams())
    return clock.cost(), len(tunnels)


def run_all_pairs(room: Room, n_rows: int) -> tuple[Cost, Nearest]:
    """The nearest units abroad of evenly spread rows, by comparing them with all."""
    params = TunnelParams()
    vectors = centred(room.embeddings, np.arange(len(room.units)))
    bank = room.units["bank_id"].rank("dense").to_numpy().astype(np.intp) - 1
    floor = max(sample_cosines(vectors, params.seed).exceeded_by(params.max_chance / len(vectors)), 0.0)
    rows = np.linspace(0, len(vectors) - 1, n_rows).astype(np.intp)
    clock, found = Clock(), dict[int, list[int]]()
    for start in range(0, n_rows, 256):
        block = rows[start : start + 256]
        cosine = vectors[block] @ vectors.T
        cosine[bank[block][:, None] == bank[None, :]] = -1
        near = np.argpartition(-cosine, params.n_abroad, axis=1)[:, : params.n_abroad]
        for row, columns, values in zip(block, near, np.take_along_axis(cosine, near, axis=1), strict=True):
            found[int(row)] = columns[values > floor].tolist()
    return clock.cost(len(vectors) / n_rows), Nearest(vectors, bank, floor, found)


def our_recall(exact: Nearest) -> float:
    """Share of the exact nearest that are among the pairs that ``link_units`` looks at."""
    pairs = nearest_pairs(exact.vectors, exact.bank, allowed_all(), exact.floor, TunnelParams())
    looked_at = set(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))
    wanted = [(min(a, b), max(a, b)) for a, others in exact.of.items() for b in others]
    return sum(ends in looked_at for ends in wanted) / max(1, len(wanted))


def same_tunnels(room: Room) -> float:
    """Share of the tunnels by comparing all pairs that cells give too (Jaccard)."""
    found = []
    for params in (TunnelParams(), replace(TunnelParams(), exact_units=len(room.units))):
        tunnels = link_units(room.units, room.embeddings, allowed_all(), params)
        found.append(set(tunnels.select("source_unit_id", "target_unit_id").iter_rows()))
    return len(found[0] & found[1]) / max(1, len(found[0] | found[1]))


def fill(conn: psycopg.Connection, exact: Nearest) -> float:
    """Put the vectors into Hindsight's shape of table and build the index of each bank; seconds of building."""
    conn.execute("CREATE EXTENSION vector")
    conn.execute(_TABLE)
    with conn.cursor() as cursor, cursor.copy("COPY memory_units (id, bank_id, embedding) FROM STDIN") as copy:
        for row, (bank, vector) in enumerate(zip(exact.bank, exact.vectors, strict=True)):
            copy.write_row((row, f"bank-{bank}", "[" + ",".join(f"{x:.6g}" for x in vector) + "]"))
    conn.execute("SET maintenance_work_mem = '1GB'")
    start = time.perf_counter()
    for bank in range(N_BANKS):
        conn.execute(
            f"CREATE INDEX ON memory_units USING hnsw (embedding vector_cosine_ops)"
            f" WHERE fact_type = 'world' AND bank_id = 'bank-{bank}'"
        )
    conn.execute("VACUUM (ANALYZE) memory_units")
    return time.perf_counter() - start


def run_queries(bench: Bench, exact: Nearest, n_queries: int) -> tuple[Cost, float, float]:
    """One query for each of some units: cost for all, recall, and how long the indexes took to build."""
    bench.admin("CREATE DATABASE tunnels_bench")
    k, wanted, hits = TunnelParams().n_abroad, 0, 0
    with psycopg.connect(bench.server.url("tunnels_bench"), autocommit=True) as conn:
        built = fill(conn, exact)
        conn.execute("SET hnsw.ef_search = 200")
        conn.execute("SET enable_seqscan = off")
        asked = list(exact.of)[:: max(1, len(exact.of) // n_queries)][:n_queries]
        vectors = {row: f"[{','.join(f'{x:.6g}' for x in exact.vectors[row])}]" for row in asked}
        require_indexes(conn, exact.bank[asked[0]], k, vectors[asked[0]])
        for row in asked[:20]:
            conn.execute(_nearest_of(exact.bank[row], k), {"v": vectors[row]}).fetchall()
        backend = psutil.Process(conn.info.backend_pid)
        clock = Clock(backend)
        answers = [conn.execute(_nearest_of(exact.bank[row], k), {"v": vectors[row]}).fetchall() for row in asked]
        cost = clock.cost(len(exact.vectors) / len(asked))
    bench.admin("DROP DATABASE tunnels_bench WITH (FORCE)")
    for row, answer in zip(asked, answers, strict=True):
        found = {near for (near,) in answer}
        wanted, hits = wanted + len(exact.of[row]), hits + len(found & set(exact.of[row]))
    return cost, hits / max(1, wanted), built


def require_indexes(conn: psycopg.Connection, bank: int, k: int, vector: str) -> None:
    """Make sure that the query walks the HNSW index of each other bank."""
    plan = "\n".join(line for (line,) in conn.execute("EXPLAIN " + _nearest_of(bank, k), {"v": vector}).fetchall())
    n_scans = len(re.findall(r"Index Scan using memory_units_embedding_idx", plan))
    if n_scans != N_BANKS - 1:
        raise SystemExit(f"{n_scans} HNSW scans in the plan; expected {N_BANKS - 1}:\n{plan}")


def _nearest_of(bank: int, k: int) -> str:
    """The nearest units of all other banks: each index is reached by its two literals alone."""
    arms = [
        f"(SELECT id, embedding <=> %(v)s::vector AS d FROM memory_units"
        f" WHERE fact_type = 'world' AND bank_id = 'bank-{other}'"
        f" ORDER BY embedding <=> %(v)s::vector LIMIT {k})"
        for other in range(N_BANKS)
        if other != bank
    ]
    return f"SELECT id FROM ({' UNION ALL '.join(arms)}) near ORDER BY d LIMIT {k}"


def measure(bench: Bench, n_units: int, n_queries: int) -> None:
    """Print the lines of one size."""
    room = make_room(n_units)
    ours, n_tunnels = run_ours(room)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{n_units:,} units in {N_BANKS} banks, {DIMS} dimensions", flush=True)
    _line("ours", ours, f"{n_tunnels} tunnels, peak memory {memory:.2f} GB")
    is_whole = n_units <= 2 * SAMPLED_ROWS
    brute, exact = run_all_pairs(room, n_units if is_whole else SAMPLED_ROWS)
    _line("all pairs", brute, f"search alone{'' if is_whole else f'; {SAMPLED_ROWS:,} rows were run'}")
    print(f"  recall of ours {our_recall(exact):.4f} of the nearest above {exact.floor:.2f}", flush=True)
    if n_units <= 50_000:
        print(f"  tunnels by all pairs and by cells agree: {same_tunnels(room):.4f}", flush=True)
    asked, recall, built = run_queries(bench, exact, n_queries)
    _line("query per unit", asked, f"search alone; {n_queries} units were asked; indexes built in {built:.0f} s")
    print(f"  recall of the queries {recall:.4f}; ours is {asked.wall / ours.wall:.1f} x faster", end="")
    print(f", and takes {asked.cpu / ours.cpu:.1f} x less CPU", flush=True)


def _line(name: str, cost: Cost, more: str) -> None:
    print(f"  {name:15} {cost.wall:8.1f} s, CPU {cost.cpu:8.1f} s; {more}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[20_000, 200_000])
    parser.add_argument("--queries", type=int, default=300, help="units that are asked one by one")
    parser.add_argument("--home", type=Path, help="home of the server; else one that is thrown away")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rcll-bench-") as folder:
        Path(folder).chmod(0o711)
        with started(args.home or Path(folder)) as bench:
            for size in args.sizes:
                measure(bench, size, args.queries)


if __name__ == "__main__":
    main()
