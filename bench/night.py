"""A night of 100,000 units in 20 banks, end to end through a real Prefect server and worker, and what Prefect adds.

``python -m bench.night [--units 100000] [--banks 20]``: the flow ``reorganize`` (labels, closets, tunnels) once through
server, work pool and worker, once as the same stages called directly with as many threads, each on a copy of one
database; both before that on a database of one unit, which tells the fixed start. Wall goes from Prefect's first state
Running to its last state (from the start of the process where it calls directly); CPU is that of all processes of the
run, PostgreSQL and Prefect's server excepted.
"""

import argparse
import json
import logging
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import psycopg

from bench.classify_data import typical
from bench.closets import embedder
from rcll.store.connect import Database
from rcll.store.embedded import EmbeddedServer
from rcll.store.seed import load_legacy
from tests.operations.conftest import ROOT, Site, make_site, wait_until

#: Tunnels are looked for between a tenth of the banks.
SETTINGS = {"RCLL_TUNNEL_PAIRS": '[["bank-0[01]", "bank-0[01]"]]'}
_STEPS = ("migrate_schema", "extract", "label", "load", "restore", "condense", "renew", "link", "dig")


def fill(database: Database, n_units: int, n_banks: int) -> None:
    """Short texts of all rooms with their offline embeddings, in a legacy bank set."""
    texts = typical(n_units)
    units = pl.DataFrame({"text": texts}).with_row_index("n")
    number = pl.col("n").cast(pl.Int64)
    moment = pl.lit(datetime(2026, 1, 1)) + pl.duration(minutes=number)  # noqa: DTZ001 - made up
    units = units.select(
        unit_id=pl.format("00000000-0000-4000-8000-{}", number.cast(pl.String).str.zfill(12)),
        bank_id=pl.format("bank-{}", (number % n_banks).cast(pl.String).str.zfill(2)),
        text="text",
        context=pl.lit("note"),
        fact_type=pl.lit("world"),
        occurred_at=moment,
        created_at=moment,
        tags=pl.lit([], pl.List(pl.String)),
    )
    banks = {name: name for name in sorted(units["bank_id"].unique())}
    load_legacy(database, banks=banks, units=units, embeddings=embedder()(texts.to_list()), schema="public")


class _Direct:
    """What stands where a task stands: the same function, in a thread where it is submitted."""

    def __init__(self, function: Any, pool: ThreadPoolExecutor) -> None:
        self._function, self._pool = function, pool

    def __call__(self, *values: Any, **named: Any) -> Any:
        return self._function(*values, **named)

    def submit(self, *values: Any) -> Any:
        return self._pool.submit(self._function, *values)


def directly() -> None:
    """Run the flow's body in this process without Prefect around it, and print its summaries."""
    from flows import engine, reorganize

    with ThreadPoolExecutor(engine.THREADS) as pool:
        for name in _STEPS:
            setattr(reorganize, name, _Direct(getattr(reorganize, name).fn, pool))
        reorganize.publish = lambda *_: None
        reorganize.flow_run_id = lambda: None
        summaries = reorganize.reorganize.fn()
    print(json.dumps([each["seconds"] | {"n_written": each["loaded"]["n_written"]} for each in summaries]))


def measured_directly(site: Site) -> tuple[float, float]:
    """Wall and CPU of a process that calls directly."""
    began, before = time.monotonic(), _children_seconds()
    command = [sys.executable, "-m", "bench.night", "--direct"]
    done = subprocess.run(command, cwd=ROOT, env=site.environment, check=True, capture_output=True, text=True)
    print(f"  directly: {done.stdout.strip().splitlines()[-1]}", flush=True)
    return time.monotonic() - began, _children_seconds() - before


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured_in_prefect(site: Site, worker: psutil.Process) -> tuple[float, float, float]:
    """Wall from Running to the end, CPU, and wall from the order to the end of a run of the deployment."""
    before, n_before = _reaped_seconds(worker), len(site.flow_runs("reorganize"))
    site.run("prefect", "deployment", "run", "reorganize/reorganize")
    wait_until(lambda: len(site.flow_runs("reorganize")) > n_before and _last(site)["end_time"], 900)
    run = _last(site)
    assert run["state_name"] == "Completed", run["state"]
    began, ended, ordered = (datetime.fromisoformat(run[name]) for name in ("start_time", "end_time", "created"))
    wait_until(lambda: not worker.children())
    (summary,) = site.rows("SELECT summary FROM rcll_runs ORDER BY started_at DESC LIMIT 1")[0]
    print(f"  in Prefect: {summary['seconds'] | {'n_written': summary['loaded']['n_written']}}", flush=True)
    whole = (ended - ordered).total_seconds()
    return (ended - began).total_seconds(), _reaped_seconds(worker) - before, whole


def _last(site: Site) -> dict[str, Any]:
    return site.flow_runs("reorganize")[-1]


def _reaped_seconds(worker: psutil.Process) -> float:
    times = worker.cpu_times()
    return times.children_user + times.children_system


def measure(server: EmbeddedServer, folder: Path, n_units: int, n_banks: int) -> None:
    """Each way on a copy of the database of one unit, then of the full one."""
    began = time.monotonic()
    sizes = {"one": (1, 1), "many": (n_units, n_banks)}
    for name, size in sizes.items():
        _admin(server, f"CREATE DATABASE {name}")
        fill(Database(server.url(name), is_embedded=True), *size)
    print(f"{n_units:,} units in {n_banks} banks, made in {time.monotonic() - began:.0f} s", flush=True)
    directly: dict[str, tuple[float, float]] = {}
    for name in sizes:
        _admin(server, f"CREATE DATABASE {name}_directly TEMPLATE {name}")
        (folder / f"{name}-directly").mkdir()
        there = Database(server.url(f"{name}_directly"), is_embedded=True)
        directly[name] = measured_directly(make_site(folder / f"{name}-directly", there, **SETTINGS))
    prefect = measure_night(server, folder, list(sizes))
    show(directly, prefect, n_units)


def measure_night(server: EmbeddedServer, folder: Path, names: list[str]) -> dict[str, tuple[float, float, float]]:
    """Through one Prefect server; a worker for each database, as its address is the worker's environment."""
    found: dict[str, tuple[float, float, float]] = {}
    (folder / "prefect").mkdir()
    site = make_site(folder / "prefect", Database(server.url(names[0]), is_embedded=True), **SETTINGS)
    with site.server():
        site.run("prefect", "work-pool", "create", "--type", "process", "rcll")
        site.run("prefect", "deploy", "--all")
        site.run("prefect", "deployment", "schedule", "pause", "--all")
        for name in names:
            site.database = Database(server.url(name), is_embedded=True)
            site.environment["RCLL_DATABASE_URL"] = site.database.url
            with site.worker() as worker:
                found[name] = measured_in_prefect(site, psutil.Process(worker.pid))
    return found


def show(directly: dict[str, tuple[float, float]], prefect: dict[str, tuple[float, float, float]], n: int) -> None:
    """The table: both ways on both databases, and what Prefect adds beyond its fixed start."""
    print("\n                                 wall s     CPU s")
    for name, units in (("one", 1), ("many", n)):
        print(f"{units:>9,} units, directly      {directly[name][0]:10.1f}{directly[name][1]:10.1f}")
        print(f"{units:>9,} units, in Prefect    {prefect[name][0]:10.1f}{prefect[name][1]:10.1f}", end="")
        print(f"   {prefect[name][2]:.1f} s from the order to the end")
    for number, what in enumerate(("wall", "CPU")):
        fixed = prefect["one"][number] - directly["one"][number]
        more = prefect["many"][number] - directly["many"][number] - fixed
        print(f"{what}: fixed start {fixed:.1f} s; beyond it {more:+.1f} s, {more / directly['many'][number]:+.1%}")


def _admin(server: EmbeddedServer, statement: str) -> None:
    with psycopg.connect(server.url("postgres"), autocommit=True) as conn:
        conn.execute(statement)


def main() -> None:
    """Fill, measure four times, print."""
    logging.getLogger("httpx").setLevel(logging.WARNING)  # the embedder's import makes every library speak
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=100_000)
    parser.add_argument("--banks", type=int, default=20)
    parser.add_argument("--direct", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.direct:
        directly()
        return
    with tempfile.TemporaryDirectory(prefix="rcll-bench-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        home.chmod(0o711)
        (home / "site").mkdir()
        with EmbeddedServer(home / "database") as server:
            measure(server, home / "site", asked.units, asked.banks)


if __name__ == "__main__":
    main()
