"""Labels of many texts from Parquet to Parquet: ``python -m bench.classify_file FOLDER [--millions 1,10] [--rules N]``.

Time and peak memory are those of a process of its own, as a run would have them.
"""

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import polars as pl

from bench import classify_data as data

_BLOCK, _PART = 500_000, 262_144


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--millions", default="1,10")
    parser.add_argument("--rules", default="300")
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        run(args.folder, args.rules)
        return
    block = pl.DataFrame([pl.int_range(_BLOCK, eager=True).cast(pl.String).alias("unit_id"), data.typical(_BLOCK)])
    block.write_parquet(args.folder / "block.parquet", row_group_size=131_072)
    del block  # the peak of a new process counts from what its parent holds
    for millions in map(int, args.millions.split(",")):
        source = args.folder / "texts.parquet"
        pl.scan_parquet([args.folder / "block.parquet"] * (2 * millions)).sink_parquet(source, row_group_size=131_072)
        print(f"{millions} million texts, {source.stat().st_size / 1e6:.0f} MB", flush=True)
        subprocess.run(
            [sys.executable, "-m", "bench.classify_file", str(args.folder), "--rules", args.rules, "--run"], check=True
        )


def run(folder: Path, wanted: str) -> None:
    """Label one part after another, as the walk does, and write each as it is done."""
    from rcll.stages.classify import classify_units
    from rcll.taxonomy import Taxonomy, load_taxonomy

    taxonomy = load_taxonomy() if wanted == "shipped" else Taxonomy(sum(data.rules(int(wanted)), ()))
    texts = pl.scan_parquet(folder / "texts.parquet")
    n_texts = texts.select(pl.len()).collect().item()
    clock, cpu = time.perf_counter(), time.process_time()
    for start in range(0, n_texts, _PART):
        labels = classify_units(texts.slice(start, _PART), taxonomy)
        labels.write_parquet(folder / f"labels-{start // _PART:05}.parquet")
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    n_labels = pl.scan_parquet(folder / "labels-*.parquet").select(pl.len()).collect().item()
    assert n_labels == n_texts
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{n_texts:,} labels in {clock:.0f} s: {n_texts / clock:,.0f} a second, {n_texts / cpu:,.0f} per CPU second, "
        f"{pl.thread_pool_size()} threads, peak {peak:.0f} MB"
    )


if __name__ == "__main__":
    main()
