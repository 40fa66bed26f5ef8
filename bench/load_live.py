"""What the clients of a live Hindsight server feel of a backfill: retain and recall, idle and meanwhile.

``python -m bench.load_live [--units 50000] [--seconds 30]``. The server runs without a language model, with embeddings
from a small server over a socket; what is compared is the same call with and without rcll beside it.
"""

import argparse
import tempfile
import time
from pathlib import Path

import psycopg

from rcll.store.connect import Database
from rcll.store.embedded import EmbeddedServer
from tests.doubles.openai_double import OpenAIDouble
from tests.hindsight.conftest import DIMENSIONS, Hindsight
from tests.integration.walks import Walk, migrated
from tests.torture.clients import Clients, fill_legacy


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=30, help="idle traffic before the backfill")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rcll-bench-") as folder:
        Path(folder).chmod(0o711)
        with EmbeddedServer(Path(folder) / "home") as server, OpenAIDouble(dims=DIMENSIONS) as double:
            with psycopg.connect(server.url("postgres"), autocommit=True) as conn:
                conn.execute("CREATE DATABASE live")
            with psycopg.connect(server.url("live"), autocommit=True) as conn:
                conn.execute("CREATE EXTENSION vector; CREATE EXTENSION pg_trgm; CREATE EXTENSION btree_gin")
            database = Database(server.url("live"), is_embedded=False)
            hindsight = Hindsight(database, double.base_url, Path(folder) / "log")
            try:
                hindsight.start()
                run(hindsight, args.units, args.seconds, Path(folder))
            finally:
                hindsight.close()


def run(server: Hindsight, n_units: int, seconds: float, folder: Path) -> None:
    """Traffic alone, then beside a backfill."""
    fill_legacy(server, n_units)
    walk = Walk(server.database, migrated(server.database), folder)
    changes = walk.plan()
    with Clients(server) as clients:
        time.sleep(seconds)
        clients.phase = "backfill"
        start = time.monotonic()
        _, loaded = walk.apply(changes)
        took = time.monotonic() - start
    print(f"{loaded.n_written:,} units in {took:.1f} s, HOT {loaded.hot_share}, {len(clients.errors)} errors")
    for (kind, phase), found in sorted(clients.seconds.items()):
        ms = sorted(1000 * each for each in found)
        p50, p99, most = ms[len(ms) // 2], ms[int(0.99 * (len(ms) - 1))], ms[-1]
        print(f"{kind} {phase}: n {len(ms)}, p50 {p50:.0f} ms, p99 {p99:.0f} ms, max {most:.0f} ms")


if __name__ == "__main__":
    main()
