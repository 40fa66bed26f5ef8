"""Cost of grouping a large room, and whether planted groups are still found there.

``python -m bench.closets_scale FILE.jsonl… [--sizes 2000 20000 200000] [--dims 384]``: all rooms of the labelled
files are planted together among made-up sentences of one room; precision, recall and F1 count the groups that
hold a planted unit. Then 1 % of units is added, and ``plan_closets`` says how many closets stay untouched.
"""

import argparse
import random
import re
import resource
import time
from pathlib import Path

import numpy as np
import polars as pl

from bench.closets import LabelledRoom, embedder, ours, read_rooms, score_room
from rcll.frames import HALL_ORDER, ROOM_UNITS
from rcll.stages.closets import CLOSET_SOURCES, ClosetParams, group_units, plan_closets

WORDS = {
    "thing": "report form badge queue invoice folder printer backup schedule dashboard licence router mailbox calendar "
    "cable roof pump engine archive manual budget survey forecast lesson garden ferry bridge tunnel recipe piano "
    "satellite tractor orchard passport pension furnace carpet staircase bicycle helmet whistle museum statue violin "
    "bakery oven cheese vineyard barrel cork bottle crate forklift trailer anchor buoy lighthouse glacier meadow "
    "sawmill timber hammer ladder scaffold cement gravel radar antenna battery inverter blade bearing valve hose "
    "tank gauge thermometer microscope incubator bandage ambulance stretcher",
    "did": "restarted moved renamed checked replaced measured reviewed delayed cancelled approved tested copied merged "
    "cleaned repaired printed exported signed counted mapped closed opened extended doubled halved logged",
    "kind": "nightly weekly internal shared old new slow broken spare public private regional central local remote "
    "manual automatic annual temporary",
    "who": "Anselm Birgit Carlos Dunja Emeka Frida Gustav Hedda Ilias Jorun Kasper Lotte Mikkel Noor Pilar Ragna Tuva",
    "place": "Aarhus Bergen Coimbra Delft Ennis Fulda Gdynia Haarlem Imola Jena Kiruna Lahti Metz Narvik Parma Reims",
    "month": "January February March April May June July August September October November December",
    "n": " ".join(str(n) for n in range(2, 900, 7)),
}
SENTENCES = (
    "{who} {did} the {kind} {thing} in {place} on {n} {month}.",
    "The {kind} {thing} of {place} is {did} twice a week by {who}.",
    "We decided to have the {thing} in {place} {did} before {month}.",
    "Never touch the {kind} {thing} while the {thing} is being {did}.",
    "The {thing} costs {n} euros a month and is paid by the {place} office.",
    "{who} found that the {thing} was {did} because the {kind} {thing} had failed.",
    "To get a {thing}, write to {who}, wait {n} days and collect it in {place}.",
    "The {thing} beside the {kind} {thing} holds {n} items.",
    "On {n} {month} the {thing} in {place} failed for {n} minutes.",
    "{who} prefers a {kind} {thing} over a {kind} {thing}.",
    "{n} of the {thing} entries in {place} were {did} twice.",
    "Half of the {kind} {thing} requests come from {place}.",
)


def made_up(n: int, seed: int) -> list[str]:
    """One or two sentences each, from a dozen frames: repetitive, like what agents write down."""
    rng = random.Random(seed)
    words = {name: line.split() for name, line in WORDS.items()}

    def fill(match: re.Match[str]) -> str:
        return rng.choice(words[match.group(1)])

    return [
        " ".join(re.sub(r"\{(\w+)\}", fill, rng.choice(SENTENCES)) for _ in range(rng.choice((1, 1, 2))))
        for _ in range(n)
    ]


def padded(vectors: np.ndarray, dims: int) -> np.ndarray:
    """The vectors with zeros up to so many dimensions: the cost of a wider embedder at the same cosines."""
    return np.pad(vectors, ((0, 0), (0, max(0, dims - vectors.shape[1]))))


def plant(rooms: list[LabelledRoom], strangers: LabelledRoom) -> LabelledRoom:
    """One room that holds all of them, the strangers last; a matter that several banks know is one matter."""
    parts = [*rooms, strangers]
    return LabelledRoom(
        pl.concat([part.units for part in parts]),
        np.concatenate([part.vectors for part in parts]),
        [group for part in parts for group in part.groups],
    )


def fillers(n: int, dims: int, seed: int = 3) -> LabelledRoom:
    texts = made_up(n, seed)
    rng = np.random.default_rng(seed)
    ids = [f"z{seed}-{i:07d}" for i in range(n)]
    halls = rng.choice(HALL_ORDER, n, p=(0.1, 0.15, 0.12, 0.12, 0.06, 0.1, 0.35)).tolist()
    columns = {"unit_id": ids, "hall": halls, "text": texts, "text_hash": ids, "happened_at": [None] * n}
    return LabelledRoom(pl.DataFrame(columns, schema=ROOM_UNITS), padded(embedder()(texts), dims), [None] * n)


def measure(planted: list[LabelledRoom], n_fillers: int, dims: int) -> None:
    room = plant(planted, fillers(n_fillers, dims))
    n_planted = len(room.units) - n_fillers
    wall, cpu = time.perf_counter(), time.process_time()
    labels = ours(room, ClosetParams())
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    touched = {label for label in labels[:n_planted] if label is not None}
    rows = [i for i, label in enumerate(labels) if i < n_planted or label in touched]
    seen = LabelledRoom(room.units[rows], room.vectors[rows], [room.groups[i] for i in rows])
    score = score_room(seen, [labels[i] for i in rows])
    n_groups, n_grouped = len(set(labels) - {None}), sum(label is not None for label in labels)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{len(labels):7} units: {wall:6.1f} s, {cpu:6.1f} s of CPU, at most {memory:.2f} GB; {n_groups} groups with "
        f"{n_grouped / len(labels):.0%} of the units; planted {score}",
        flush=True,
    )


def grow(planted: list[LabelledRoom], n_fillers: int, dims: int) -> None:
    """Add 1 % and count the closets that stay."""
    room = plant(planted, fillers(n_fillers, dims))
    params = ClosetParams()
    groups = group_units(room.units, room.vectors, params)
    hashes = room.units.select("unit_id", "text_hash")
    existing = groups.join(hashes, on="unit_id").select(
        pl.col("group").cast(pl.String).alias("closet_id"), "unit_id", "text_hash"
    )
    existing = existing.select(CLOSET_SOURCES.names())
    again = plan_closets(existing, room.units, room.vectors, params)
    larger = plant([room], fillers(len(room.units) // 100, dims, seed=4))
    plan = plan_closets(existing, larger.units, larger.vectors, params)
    added = larger.units["unit_id"].tail(len(room.units) // 100)
    joined = set(plan.updated.filter(pl.col("unit_id").is_in(added.implode()))["closet_id"])
    others = set(existing["closet_id"]) - joined
    kept = len(others & set(plan.kept))
    print(f"again: {len(again.kept)} of {existing['closet_id'].n_unique()} kept, {again.new['group'].n_unique()} new")
    print(
        f"after 1 % growth: {kept} of {len(others)} closets without a new member untouched ({kept / len(others):.1%})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--sizes", nargs="+", type=int, default=[2_000, 20_000, 200_000])
    parser.add_argument("--dims", type=int, default=384)
    args = parser.parse_args()
    rooms = [room for path in args.files for room in read_rooms(path, embedder())]
    planted = [LabelledRoom(r.units, padded(r.vectors, args.dims), r.groups) for r in rooms]
    for size in args.sizes:
        measure(planted, size, args.dims)
    grow(planted, 3_000, args.dims)


if __name__ == "__main__":
    main()
