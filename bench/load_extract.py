"""Reading out: units to Parquet and embeddings to an array; rows per second, CPU of both sides, memory.

``python -m bench.load_extract [--size 200000x384] [--home DIR]``; the databases are those of bench.load.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import psutil

from bench.load import started
from bench.load_data import Size
from rcll.store.catalog import read_tenants
from rcll.store.connect import Connection, Database
from rcll.store.extract import extract_embeddings, extract_units


def main() -> None:
    """Measure the best of three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="200000x384")
    parser.add_argument("--home", type=Path)
    args = parser.parse_args()
    size = Size(*map(int, args.size.split("x")))
    with tempfile.TemporaryDirectory(prefix="rcll-bench-") as folder:
        Path(folder).chmod(0o711)
        with started(args.home or Path(folder)) as bench:
            bench.make(size)
            database = Database(bench.server.url(size.name), is_embedded=True)
            with database.connect() as conn:
                (tenant,) = read_tenants(conn)
                where = {"banks": None, "taxonomy_hash": "T", "folder": Path(folder) / "parts"}
                show("units to Parquet", size, conn, lambda: extract_units(database, tenant, **where))
                parts = sorted((Path(folder) / "parts").glob("*.parquet"))
                ids = pl.concat([pl.read_parquet(part, columns=["unit_id"]) for part in parts])["unit_id"].to_list()
                show("embeddings", size, conn, lambda: extract_embeddings(conn, tenant, ids))
                show("embeddings, naive", size, conn, lambda: naive(conn))


def naive(conn: Connection) -> np.ndarray:
    """What most programs do: fetch text, parse it."""
    rows = conn.execute("SELECT embedding::text FROM memory_units").fetchall()
    return np.stack([np.fromstring(text[1:-1], dtype=np.float32, sep=",") for (text,) in rows])


def show(name: str, size: Size, conn: Connection, read: Callable[[], object]) -> None:
    """Time a way to read and print a line."""
    backend = psutil.Process(conn.info.backend_pid)
    best: tuple[float, float, float] | None = None
    for _ in range(3):
        start, ours, theirs = time.perf_counter(), time.process_time(), sum(backend.cpu_times()[:2])
        read()
        found = (
            time.perf_counter() - start,
            time.process_time() - ours,
            sum(backend.cpu_times()[:2]) - theirs,
        )
        best = min(best, found) if best else found
    assert best is not None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{name}: {size.n_units / best[0]:,.0f} rows/s ({best[0]:.2f} s; CPU ours {best[1]:.2f} s, "
        f"this backend {best[2]:.2f} s); peak memory {peak:.0f} MB"
    )


if __name__ == "__main__":
    main()
