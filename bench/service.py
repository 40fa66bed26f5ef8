"""Recall over many units: how long it takes and what it finds, beside plain pgvector and Hindsight's own recall.

``python -m bench.service [--size 200000x384] [--questions 100] [--home DIR]``

One bank of 70 % of the units in Hindsight's schema with its index set (bench/load_data, bench/service_data); with
``--home`` the databases are kept, and making them takes ten minutes once. *Plain* is one statement over the same
indexes with the filter in it, ``hnsw.ef_search = 200`` and the iterative scan off or strict, as Hindsight sets it.
*rcll* is the service's recall less HTTP and embedding: critical units, tunnels and whole rows included. *Hindsight* is
its server's recall over HTTP, with its keyword and graph search and its fusion, and with vectors given to it. recall@20
is the share of the exact nearest 20 that came back. A question is near a topic of the room asked for (own), or far from
it (foreign). The second table says where looking at all of a room stops being cheaper than the index scan, by which
EXACT_MOST is set; the third what labelling adds to a retain. Needs the extra ``hindsight``.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import mean, median
from uuid import uuid4

import httpx
import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from bench.load import started
from bench.load_data import Size
from bench.service_data import BANK, ROOMS, Question, questions, ready
from bench.service_ways import N_RESULTS, Way, exact, in_turn, ours, over_http, place_of, plain, serving_vectors
from rcll.service.recall import FIRST_DEPTH, LAST_DEPTH
from rcll.stages.recall import Filters, Hit
from rcll.stages.retain import Wanted, label_new_units
from rcll.store.connect import Database
from rcll.store.pool import Pool
from rcll.store.recall import Question as StoreQuestion
from rcll.store.recall import Searcher, searching, vector_text
from rcll.taxonomy import load_taxonomy
from rcll.walk.place import Place
from tests.hindsight.conftest import Hindsight

AT_ONCE = (1, 8)
#: Rooms asked for: none, a small one and a large one; with questions of the room and of others.
CASES = [(None, True), ("auth", True), ("auth", False), ("infrastructure", True), ("infrastructure", False)]
_DEPTHS = (FIRST_DEPTH, LAST_DEPTH)
#: A search of one room.
Find = Callable[[Searcher, StoreQuestion, int], Awaitable[list[Hit]]]
_TEXT = "We decided that access tokens of the {n}th billing service expire after {n} minutes unless they are renewed."


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="200000x384")
    parser.add_argument("--questions", type=int, default=100, help="of each kind")
    parser.add_argument("--without-hindsight", action="store_true", help="leave its server out")
    parser.add_argument("--home", type=Path, help="keep the databases here; else they are made and thrown away")
    args = parser.parse_args()
    size = Size(*map(int, args.size.split("x")))
    with tempfile.TemporaryDirectory(prefix="rcll-bench-") as folder:
        Path(folder).chmod(0o711)
        with started(args.home or Path(folder)) as bench:
            database, tenant = ready(bench, size)
            place = place_of(database, tenant)
            sets = [questions(size.dims, args.questions, room, is_own=is_own) for room, is_own in CASES]
            asyncio.run(_measure(place, sets, None if args.without_hindsight else Path(folder)))


async def _measure(place: Place, sets: Sequence[Sequence[Question]], folder: Path | None) -> None:
    console = Console(width=150)
    pools = [Pool(place.database, size=max(AT_ONCE)) for _ in range(3)]
    for pool in pools:
        await pool.open()
    try:
        everything = [question for asked in sets for question in asked]
        ways = {
            "plain, scan off": plain(pools[0], "off"),
            "plain, strict scan": plain(pools[1], "strict_order"),
            "rcll": await ours(place, pools[2], everything),
        }
        truth = [[exact(place.database, question) for question in asked] for asked in sets]
        console.print(await _recalls(ways, sets, truth))
        if folder is not None:
            console.print(await _hindsight(place.database, sets[0], truth[0], folder))
        console.print(await _crossing(place, pools[2], len(sets[0]), sets[0][0].vector.shape[0]))
        console.print(await asyncio.to_thread(_labelling, place))
    finally:
        for pool in pools:
            await pool.close()


async def _recalls(ways: dict[str, Way], sets: Sequence[Sequence[Question]], truth: list[list[set[str]]]) -> Table:
    """Latency and finds of each way and case."""
    table = _table(f"recall of {N_RESULTS}, milliseconds", "room", "way", "recall@20")
    for asked, true, (room, is_own) in zip(sets, truth, CASES, strict=True):
        for name, way in ways.items():
            await in_turn(way, asked, max(AT_ONCE))  # every connection and page is warm
            measured = [await in_turn(way, asked, n) for n in AT_ONCE]
            shown = "all" if room is None else f"{room} {'own' if is_own else 'foreign'}"
            table.add_row(shown, name, f"{_share(measured[0][1], true):.3f}", *_shown([took for took, _ in measured]))
        table.add_section()
    return table


async def _hindsight(database: Database, asked: Sequence[Question], true: list[set[str]], folder: Path) -> Table:
    """Hindsight's own recall of the same rows; its order is not that of vectors alone."""
    table = _table("Hindsight's own recall, milliseconds, over HTTP", "room", "way", "recall@20")
    with serving_vectors(asked) as url:
        server = Hindsight(database, url, folder / "hindsight.log")
        try:
            await asyncio.to_thread(server.start)
            async with httpx.AsyncClient(base_url=server.base_url, timeout=60) as client:
                way = over_http(client)
                await in_turn(way, asked, max(AT_ONCE))
                measured = [await in_turn(way, asked, n) for n in AT_ONCE]
        finally:
            server.close()
    share = _share(measured[0][1], true)
    table.add_row("all", "Hindsight", f"{share:.3f}", *_shown([took for took, _ in measured]))
    return table


async def _crossing(place: Place, pool: Pool, n_questions: int, dims: int) -> Table:
    """The searches of a room, one by one."""
    table = Table(title="one room, questions of other rooms: milliseconds (median), share found", title_justify="left")
    searches = {"exact": Searcher.exact, **{f"{depth:,} deep": _deep(depth) for depth in _DEPTHS}}
    pairs = [part for search in list(searches)[1:] for part in (search, "recall@20")]
    for name in ("room", "units", "exact", *pairs):
        table.add_column(name, justify="left" if name == "room" else "right")
    for room in ROOMS:
        asked = questions(dims, n_questions // 3, room, is_own=False, seed=13)
        took, true, n_units = await _one_by_one(place, pool, asked, Searcher.exact)
        cells = [room, f"{n_units:,}", f"{took:.1f}"]
        for search in list(searches.values())[1:]:
            took, found, _ = await _one_by_one(place, pool, asked, search)
            cells += [f"{took:.1f}", f"{_share(found, true):.3f}"]
        table.add_row(*cells)
    return table


def _deep(depth: int) -> Find:
    async def search(searcher: Searcher, question: StoreQuestion, limit: int) -> list[Hit]:
        return (await searcher.nearest(question, limit, depth)).hits

    return search


async def _one_by_one(
    place: Place, pool: Pool, asked: Sequence[Question], search: Find
) -> tuple[float, list[set[str]], int]:
    took, found, n_units = [], [], 0
    for question in asked:
        assert question.room is not None
        stored = StoreQuestion(BANK, vector_text(question.vector), Filters(rooms=(question.room,)))
        async with searching(pool, place.tenant, has_types=True) as searcher:
            n_units = n_units or await searcher.n_filed(stored, 10_000_000)
            began = time.perf_counter()
            hits = await search(searcher, stored, N_RESULTS)
            took.append(1000 * (time.perf_counter() - began))
        found.append({hit.id for hit in hits})
    return median(took), found, n_units


def _labelling(place: Place, n_texts: int = 300) -> Table:
    """CPU of classifying one text at a time, in this process; of the ledger's row, in the server, beside the unit's."""
    taxonomy = load_taxonomy(None)
    texts = [_TEXT.format(n=n) for n in range(n_texts + 20)]
    for text in texts[:20]:
        _label(text, taxonomy)
    began = time.process_time()
    for text in texts[20:]:
        _label(text, taxonomy)
    cpu = 1000 * (time.process_time() - began) / n_texts
    table = Table(title="labelling one retained text, CPU milliseconds", title_justify="left")
    table.add_column("what")
    table.add_column("CPU ms", justify="right")
    table.add_row("rules, in the client", f"{cpu:.2f}")
    for name, rows in _writes(place, n_texts).items():
        table.add_row(f"{name}, in the server", f"{rows:.2f}")
    return table


def _label(text: str, taxonomy: object) -> None:
    label_new_units(["0" * 32], [text], [Wanted()], taxonomy, use_layers=True, by_hand="hand")  # pyright: ignore[reportArgumentType]


def _writes(place: Place, n_rows: int) -> dict[str, float]:
    """Server CPU of inserting a unit as a memory server does, and of its ledger row beside it; nothing stays."""
    rng = np.random.default_rng(5)
    vectors = [vector_text(vector) for vector in rng.standard_normal((n_rows, 384))]
    unit = (
        "INSERT INTO memory_units (id, bank_id, text, embedding, event_date, fact_type)"
        " VALUES (%s, %s, %s, %s::vector, now(), 'world')"
    )
    row = (
        "INSERT INTO rcll_labels (unit_id, bank_id, room, hall, layer, room_source, hall_source, layer_source,"
        " room_rule, hall_rule, taxonomy_hash, text_hash)"
        " VALUES (%s, %s, 'auth', 'fact', 2, 'rule', 'rule', 'rule', 'some-rule', 'other-rule', %s, %s)"
    )
    ids = [str(uuid4()) for _ in range(n_rows)]
    fingerprint = "0123456789abcdef" * 2
    units = [(i, BANK, _TEXT.format(n=n), vectors[n]) for n, i in enumerate(ids)]
    rows = [(i, BANK, fingerprint, fingerprint) for i in ids]
    costs: dict[str, float] = {}
    with place.database.connect(autocommit=False) as conn:
        backend = psutil.Process(conn.info.backend_pid)
        for name, statement, values in (("the unit's row", unit, units), ("the ledger's row", row, rows)):
            began = sum(backend.cpu_times()[:2])
            for each in values:
                conn.execute(statement, each)
            costs[name] = 1000 * (sum(backend.cpu_times()[:2]) - began) / n_rows
        conn.rollback()
    return costs


def _share(found: Sequence[set[str]], true: Sequence[set[str]]) -> float:
    """Mean share of the true units that were found."""
    return mean(len(mine & wanted) / len(wanted) for mine, wanted in zip(found, true, strict=True))


def _table(title: str, *names: str) -> Table:
    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name)
    for n in AT_ONCE:
        for name in ("p50", "p99", "a second"):
            table.add_column(f"{name}\n{n} at once", justify="right")
    return table


def _shown(runs: Sequence[Sequence[float]]) -> list[str]:
    cells = []
    for took, n_at_once in zip(runs, AT_ONCE, strict=True):
        middle, worst = np.percentile(took, [50, 99])
        cells += [f"{middle:.1f}", f"{worst:.1f}", f"{1000 * n_at_once / mean(took):.0f}"]
    return cells


if __name__ == "__main__":
    main()
