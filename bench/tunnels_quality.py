"""Tunnels against labelled pairs: ``python -m bench.tunnels_quality [UNITS.jsonl:TUNNELS.jsonl…] [--errors]``.

Units hold id, bank, room, text and group (``boiler…``: the same sentence in many banks, else null or a matter);
pairs hold a, b and relationship. Without arguments the sets under bench/links are measured.

Recall counts ``same_concept`` pairs; pairs of another true relationship are neither required nor wrong. A tunnel
that touches boilerplate is wrong beyond one for each text and pair of banks, and so is every other pair. Each set is
measured as shipped, and with the threshold that is best on the others (F1 at precision >= .72).
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl

from bench.closets import Score, tuned
from bench.tunnels_room import embed
from rcll.frames import DEFAULT_ROOM, LINK_UNITS, TUNNELS
from rcll.stages.similarity import Floats, centred_rows
from rcll.stages.tunnels import TunnelParams, link_units

LINKS = Path(__file__).parent / "links"
THRESHOLDS = np.arange(0.14, 0.5, 0.02)
Pair = tuple[str, str]


@dataclass(frozen=True)
class LabelledBanks:
    """Units (id, bank, room, text, group), their vectors by id, and the true pairs with their relationship."""

    units: pl.DataFrame
    vectors: dict[str, Floats]
    truth: dict[Pair, str]

    def rooms(self) -> list[tuple[pl.DataFrame, Floats]]:
        """Units of each room but the fallback (frames.LINK_UNITS), and their vectors."""
        parts = self.units.filter(pl.col("room") != DEFAULT_ROOM).sort("room", "id")
        found: list[tuple[pl.DataFrame, Floats]] = []
        for part in parts.partition_by("room", maintain_order=True):
            units = part.select(unit_id="id", bank_id="bank", text="text").select(LINK_UNITS.names())
            found.append((units, np.array([self.vectors[unit_id] for unit_id in units["unit_id"]])))
        return found


def pair(a: str, b: str) -> Pair:
    """An unordered pair."""
    return (a, b) if a < b else (b, a)


def read_banks(units_path: Path, tunnels_path: Path) -> LabelledBanks:
    """A labelled set."""
    units = pl.read_ndjson(units_path, infer_schema_length=None)
    truth = pl.read_ndjson(tunnels_path)
    vectors = dict(zip(units["id"], embed(units["text"].to_list()), strict=True))
    pairs = {pair(row["a"], row["b"]): row["relationship"] for row in truth.iter_rows(named=True)}
    return LabelledBanks(units, vectors, pairs)


def link(banks: LabelledBanks, params: TunnelParams) -> pl.DataFrame:
    """Tunnels of all rooms, every bank with every other (frames.TUNNELS)."""
    found = [pl.DataFrame(schema=TUNNELS)]
    for units, vectors in banks.rooms():
        allowed = ~np.eye(units["bank_id"].n_unique(), dtype=np.bool_)
        found.append(link_units(units, vectors, allowed, params))
    return pl.concat(found)


def judge(banks: LabelledBanks, tunnels: pl.DataFrame) -> tuple[Score, list[Pair]]:
    """Score over same_concept pairs, and the pairs that are wrong."""
    group = dict(zip(banks.units["id"], banks.units["group"], strict=True))
    wanted = {ends for ends, relationship in banks.truth.items() if relationship == "same_concept"}
    right, wrong, boiler = 0, list[Pair](), set[tuple[str, str, str]]()
    for row in tunnels.iter_rows(named=True):
        ends = pair(row["source_unit_id"], row["target_unit_id"])
        low, high = sorted((row["source_bank_id"], row["target_bank_id"]))
        texts = [group[end] for end in ends if (group[end] or "").startswith("boiler")]
        if len(texts) == 2 and texts[0] == texts[1] and (texts[0], low, high) not in boiler:
            boiler.add((texts[0], low, high))
        elif ends in wanted:
            right += 1
        elif ends not in banks.truth:
            wrong.append(ends)
    return Score(right, right + len(wrong), len(wanted)), wrong


def nearest_alone(banks: LabelledBanks, k: int = 3) -> Score:
    """What mutual nearest neighbours of other banks by vectors alone reach."""
    rows: list[tuple[str, str, str, str]] = []
    for units, vectors in banks.rooms():
        rows_of = centred_rows(vectors)
        cosine = rows_of @ rows_of.T
        bank, ids = units["bank_id"].to_numpy(), units["unit_id"].to_list()
        cosine[bank[:, None] == bank[None, :]] = -1
        near = [set(row) for row in np.argsort(-cosine, axis=1)[:, :k].tolist()]
        rows += [
            (ids[i], ids[j], bank[i], bank[j])
            for i, j in combinations(range(len(ids)), 2)
            if j in near[i] and i in near[j] and bank[i] != bank[j]
        ]
    columns = ["source_unit_id", "target_unit_id", "source_bank_id", "target_bank_id"]
    return judge(banks, pl.DataFrame(rows, schema=columns, orient="row"))[0]


def show_errors(banks: LabelledBanks, tunnels: pl.DataFrame) -> None:
    """Print wrong and missed pairs with their texts."""
    text = dict(zip(banks.units["id"], banks.units["text"], strict=True))
    _, wrong = judge(banks, tunnels)
    found = {pair(*ends) for ends in tunnels.select("source_unit_id", "target_unit_id").iter_rows()}
    missed = [ends for ends, kind in banks.truth.items() if kind == "same_concept" and ends not in found]
    for name, pairs in (("wrong", wrong), ("missed", missed)):
        for a, b in pairs:
            print(f"    {name} {a} {b}\n      {text[a]}\n      {text[b]}")


def measure(sets: dict[str, LabelledBanks], params: TunnelParams, *, errors: bool) -> None:
    """Print a line for each set."""
    curves: dict[str, list[Score]] = {}
    for name, banks in sets.items():
        curves[name] = [judge(banks, link(banks, replace(params, min_agreement=float(t))))[0] for t in THRESHOLDS]
    print("precision / recall / F1 of same_concept pairs")
    print(f"{'set':16} {'as shipped':24} {'threshold of the others':24} nearest alone")
    total = Score()
    for name, banks in sets.items():
        tunnels = link(banks, params)
        score, _ = judge(banks, tunnels)
        total += score
        others = [scores for other, scores in curves.items() if other != name]
        at = tuned([sum(scores, Score()) for scores in zip(*others, strict=True)]) if others else None
        left_out = f"{curves[name][at]} at {THRESHOLDS[at]:.2f}" if at is not None else ""
        print(f"{name:16} {score!s:24} {left_out:32} {nearest_alone(banks)}  {len(tunnels)} tunnels")
        if errors:
            show_errors(banks, tunnels)
    print(f"{'all':16} {total}")


def read_sets(names: Sequence[str]) -> dict[str, LabelledBanks]:
    """The named sets, or those of bench/links."""
    files = [tuple(map(Path, name.split(":"))) for name in names] or [
        (path, path.with_name(path.name.replace(".units.", ".tunnels.")))
        for path in sorted(LINKS.glob("*.units.jsonl"))
    ]
    return {units.name.split(".")[0]: read_banks(units, tunnels) for units, tunnels in files}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", help="UNITS.jsonl:TUNNELS.jsonl")
    parser.add_argument("--errors", action="store_true", help="print wrong and missed pairs")
    args = parser.parse_args()
    measure(read_sets(args.sets), TunnelParams(), errors=args.errors)


if __name__ == "__main__":
    main()
