"""Writing labels back: what each way costs the server and what live traffic feels of it.

``python -m bench.load [--sizes 12000x384 40000x384 200000x384 20000x1536] [--rounds N] [--home DIR]``

Each size is one database with Hindsight's own schema and indexes, made once and cloned for every measurement; rounds
are interleaved (every way once, then again). CPU is that of all server processes; WAL, HOT share and heap growth are
counted on a warm server without autovacuum, right after a checkpoint; stalls come from a second pass beside live
traffic. The figures of rcll include its lease, ledger and undo log; how much of the WAL these are stands in
parentheses. Needs the extra ``hindsight``.
"""

import argparse
import logging
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
import psycopg
from rich.console import Console
from rich.table import Table

from bench.load_data import Size, build
from bench.load_measure import Cost, disturb, measure
from bench.load_ways import WAYS, Job, plan_everything
from rcll.store.catalog import read_tenants
from rcll.store.connect import Database
from rcll.store.embedded import EmbeddedServer
from rcll.store.migrate import migrate

SIZES = ("12000x384", "40000x384", "20000x1536", "200000x384")
#: Units up to which a size is measured more than once.
SMALL = 40_000
BASELINE = "unnest 5k"
#: The server's own max_wal_size of 2 GB stands: of all, only unnest at 200,000 units meets a checkpoint on its way.
_SETTINGS = {"autovacuum": "off", "checkpoint_timeout": "1h", "wal_keep_size": "16GB"}


@dataclass(frozen=True)
class Bench:
    """A server of our own and the databases on it."""

    server: EmbeddedServer
    postmaster: psutil.Process

    def admin(self, statement: str) -> None:
        """Run a statement outside any of the databases."""
        with psycopg.connect(self.server.url("postgres"), autocommit=True) as conn:
            conn.execute(statement)

    def make(self, size: Size) -> None:
        """Build the database of a size unless it is there, migrated for rcll."""
        with psycopg.connect(self.server.url("postgres")) as conn:
            if conn.execute("SELECT 1 FROM pg_database WHERE datname = %s", [size.name]).fetchone():
                return
        self.admin(f"DROP DATABASE IF EXISTS {size.name}_draft")
        self.admin(f"CREATE DATABASE {size.name}_draft")
        url = self.server.url(f"{size.name}_draft")
        build(url, size)
        database = Database(url, is_embedded=True)
        with database.connect() as conn:
            (tenant,) = read_tenants(conn)
        migrate(database, tenant)
        with database.connect() as conn:
            conn.execute("VACUUM (ANALYZE) memory_units")
        self.admin(f"ALTER DATABASE {size.name}_draft RENAME TO {size.name}")

    @contextmanager
    def job(self, size: Size) -> Generator[Job]:
        """A clone of a size, and the labels to write to it."""
        name = f"{size.name}_clone"
        self.admin(f"CREATE DATABASE {name} TEMPLATE {size.name} STRATEGY file_copy")
        try:
            database = Database(self.server.url(name), is_embedded=True)
            yield Job(database, plan_everything(database))
        finally:
            self.admin(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def started(home: Path) -> Generator[Bench]:
    """Run a server for the bench alone."""
    with EmbeddedServer(home) as server:
        with psycopg.connect(server.url("postgres"), autocommit=True) as conn:
            for name, value in _SETTINGS.items():
                conn.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            conn.execute("SELECT pg_reload_conf()")
            (folder,) = conn.execute("SHOW data_directory").fetchone()
        pid = int((Path(folder) / "postmaster.pid").read_text().split()[0])
        yield Bench(server, psutil.Process(pid))


def run(bench: Bench, size: Size, ways: list[str], rounds: int) -> dict[str, list[Cost]]:
    """Measure every way on a quiet server and beside traffic, ``rounds`` times, interleaved."""
    bench.make(size)
    costs: dict[str, list[Cost]] = {name: [] for name in ways}
    for number in range(rounds):
        for name in ways:
            with bench.job(size) as job:
                cost = measure(job, WAYS[name], bench.postmaster)
            with bench.job(size) as job:
                beside = disturb(job, WAYS[name], idle_seconds=8)
                if job.gave_up:
                    print(
                        f"  {size.name} {name} gave up beside live traffic after {job.deadlocks} deadlocks", flush=True
                    )
            cost.traffic, cost.deadlocks = beside.traffic, beside.deadlocks
            costs[name].append(cost)
            print(
                f"  {size.name} round {number + 1} {name}: {cost.seconds:.1f} s, CPU {cost.cpu:.1f} s, "
                f"WAL {cost.wal_mb:.0f} MB, HOT {cost.hot:.1%}, heap {cost.growth:+.0%}",
                flush=True,
            )
            assert not cost.wrong, f"{name} left {cost.wrong} labels wrong"
    return costs


def show(console: Console, size: Size, costs: dict[str, list[Cost]]) -> None:
    """Print the table of a size: medians, and the worst stall of all rounds."""
    table = Table(title=f"{size.n_units:,} units, {size.dims} dimensions", title_justify="left")
    for name in ("way", "wall s", "CPU s", "x", "WAL MB", "x ", "HOT", "heap", "deadlocks"):
        table.add_column(name, justify="left" if name == "way" else "right")
    for kind in ("update", "insert", "ten", "search"):
        table.add_column(f"{kind} max ms\nidle / load (p99)", justify="right")
    base = {name: median(getattr(cost, name) for cost in costs[BASELINE]) for name in ("cpu", "wal_mb")}
    for way, rounds in costs.items():
        names = ("seconds", "cpu", "wal_mb", "ledger_mb", "hot", "growth")
        middle = {name: median(getattr(cost, name) for cost in rounds) for name in names}
        own = f" ({middle['ledger_mb']:.0f})" if middle["ledger_mb"] else ""
        table.add_row(
            *(way, f"{middle['seconds']:.1f}", f"{middle['cpu']:.1f}", f"{base['cpu'] / middle['cpu']:.1f}"),
            *(f"{middle['wal_mb']:.0f}{own}", f"{base['wal_mb'] / middle['wal_mb']:.2f}", f"{middle['hot']:.1%}"),
            *(f"{middle['growth']:+.0%}", str(sum(cost.deadlocks for cost in rounds))),
            *(_stall(rounds, kind) for kind in ("update", "insert", "ten", "search")),
        )
    console.print(table)


def _stall(rounds: list[Cost], kind: str) -> str:
    idle = max(cost.traffic[f"{kind} idle"]["max"] for cost in rounds)
    load = [cost.traffic[f"{kind} load"] for cost in rounds if f"{kind} load" in cost.traffic]
    worst, p99 = (max((each[name] for each in load), default=0.0) for name in ("max", "p99"))
    return f"{idle:.0f} / {worst:.0f} ({p99:.0f})"


def main() -> None:
    """Measure and print."""
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # executemany says of every deadlock that it cleans up
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--rounds", type=int, default=3, help=f"for sizes up to {SMALL:,} units; one for the others")
    parser.add_argument("--home", type=Path, help="keep the databases here; else they are made and thrown away")
    args = parser.parse_args()
    console = Console(width=180)
    with tempfile.TemporaryDirectory(prefix="rcll-bench-") as folder:
        Path(folder).chmod(0o711)
        with started(args.home or Path(folder)) as bench:
            for text in args.sizes:
                size = Size(*map(int, text.split("x")))
                rounds = args.rounds if size.n_units <= SMALL else 1
                show(console, size, run(bench, size, [BASELINE, *(w for w in args.ways if w != BASELINE)], rounds))


if __name__ == "__main__":
    main()
