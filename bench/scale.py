"""How time falls from one Dask worker to two, what a task costs, and what Prefect adds to direct calls.

``python -m bench.scale [--tasks 16] [--units 6000]``: every task classifies texts and groups a room of made-up
sentences. Each worker is one process of one thread on a core of its own; so is the process that calls directly. CPU is
that of the workers (of this process where it calls directly), wall that of the flow's body.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack

import numpy as np
import polars as pl

_ONE_THREAD = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def work(seed: int, n_units: int) -> int:
    """Classify and group; returns how many units got a group."""
    from bench.classify_data import typical
    from bench.closets_scale import made_up
    from rcll.frames import ROOM_UNITS
    from rcll.stages.classify import ClassifyParams, classify_units
    from rcll.stages.closets import ClosetParams, group_units
    from rcll.taxonomy import load_taxonomy

    texts = pl.DataFrame({"unit_id": [str(n) for n in range(10 * n_units)], "text": typical(10 * n_units, seed)})
    classify_units(texts, load_taxonomy(None), ClassifyParams())
    said = made_up(n_units, seed)
    embeddings = np.random.default_rng(seed).normal(size=(n_units, 384)).astype(np.float32)
    ids = [f"{n:08d}" for n in range(n_units)]
    room = pl.DataFrame(
        {"unit_id": ids, "hall": "fact", "text": said, "text_hash": ids, "happened_at": None}, schema=ROOM_UNITS
    )
    return group_units(room, embeddings, ClosetParams()).height


def cpu_seconds(pids: list[int]) -> float:
    """User and system time of processes."""
    import psutil

    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


def directly(n_tasks: int, n_units: int) -> None:
    """The same steps without any engine."""
    os.sched_setaffinity(0, {0})
    began, cpu = time.monotonic(), time.process_time()
    for seed in range(n_tasks):
        work(seed, n_units)
    print(f"directly    wall {time.monotonic() - began:6.1f} s   CPU {time.process_time() - cpu:6.1f} s", flush=True)


def on_workers(n_workers: int, n_tasks: int, n_units: int) -> None:
    """A flow whose tasks run on pinned workers of a scheduler; also what an empty task costs."""
    from distributed import Client
    from prefect import flow, task
    from prefect.cache_policies import NO_CACHE
    from prefect_dask import DaskTaskRunner

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    with ExitStack() as stack:
        start = [sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", str(port)]
        start.append("--no-dashboard")
        processes = [subprocess.Popen(start, stderr=subprocess.DEVNULL)]
        for core in range(n_workers):
            start = ["taskset", "-c", str(core), sys.executable, "-m", "dask", "worker", address]
            start += ["--nthreads", "1", "--no-nanny", "--no-dashboard"]
            processes.append(subprocess.Popen(start, env=os.environ | _ONE_THREAD, stderr=subprocess.DEVNULL))
        for process in processes:
            stack.callback(process.wait)
            stack.callback(process.terminate)
        with Client(address, timeout=60) as client:
            client.wait_for_workers(n_workers, timeout=60)
            client.run(work, 0, 500)  # imports, on every worker
        pids = [process.pid for process in processes[1:]]

        def measured(step, *values) -> tuple[float, float]:
            began, cpu = time.monotonic(), cpu_seconds(pids)
            futures = [step.submit(seed, *values) for seed in range(n_tasks)]
            for future in futures:
                future.result()
            return time.monotonic() - began, cpu_seconds(pids) - cpu

        @flow(task_runner=DaskTaskRunner(address=address))
        def spread() -> None:
            task(_nothing, cache_policy=NO_CACHE).submit(0).result()  # the first one connects
            wall, cpu = measured(task(_nothing, cache_policy=NO_CACHE))
            print(f"{n_workers} workers, empty task: {1000 * wall / n_tasks:.0f} ms, CPU {1000 * cpu / n_tasks:.0f} ms")
            wall, cpu = measured(task(work, cache_policy=NO_CACHE), n_units)
            print(f"{n_workers} workers   wall {wall:6.1f} s   CPU {cpu:6.1f} s", flush=True)

        spread()


def _nothing(seed: int) -> int:
    return seed


def main() -> None:
    """Measure each way in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--units", type=int, default=6_000)
    parser.add_argument("--way", choices=["0", "1", "2"])
    asked = parser.parse_args()
    if asked.way is None:
        with tempfile.TemporaryDirectory() as home:
            quiet = {"PREFECT_HOME": home, "PREFECT_LOGGING_LEVEL": "CRITICAL", "DO_NOT_TRACK": "1"}
            for way in "012":
                command = [sys.executable, "-m", "bench.scale", "--way", way]
                sizes = ["--tasks", str(asked.tasks), "--units", str(asked.units)]
                subprocess.run([*command, *sizes], env=os.environ | _ONE_THREAD | quiet, check=True)
    elif asked.way == "0":
        directly(asked.tasks, asked.units)
    else:
        from pathlib import Path

        from rcll.prefect_env import prepare_prefect
        from rcll.prefect_server import start_server

        prepare_prefect(Path(os.environ["PREFECT_HOME"]))
        os.environ["PREFECT_API_URL"] = start_server()
        on_workers(int(asked.way), asked.tasks, asked.units)


if __name__ == "__main__":
    main()
