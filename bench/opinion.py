"""How often the second opinion is right when it disagrees: ``python -m bench.opinion [FILE.jsonl…]``.

Each line holds text and room; every file (those of bench/quality together) is taken as one bank; without files the
demo's banks follow, with the rooms that their author meant. The rules file its
units, the labels of specific rules teach, all else is judged; vectors are wordllama's (256 dimensions). Printed by set
and by likelihood: how many units are doubted, the share in which the proposed room is right, the share in which the
present one is, and beside them how often the present room is right over all units that could be doubted.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from bench.closets import embedder
from rcll.demo.units import demo_truth, demo_units
from rcll.frames import TEXTS
from rcll.stages.classify import classify_units
from rcll.stages.opinion import (
    OPINIONS,
    ROOMED,
    OpinionParams,
    doubt_rooms,
    learn_rooms,
    weigh_doubts,
    words_for_rules,
)
from rcll.taxonomy import load_taxonomy

QUALITY = Path("bench/quality")
SHOWN = (0.4, 0.5, 0.6, 0.7, 0.8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--words", action="store_true", help="show the words proposed for rules")
    args = parser.parse_args()
    sets = {file.stem: [file] for file in args.files}
    if not sets:
        sets = {"quality": sorted(QUALITY.glob("*.jsonl"))}
        sets |= {file.stem: [file] for file in sorted(Path("bench/groups").glob("*.jsonl"))}
    judged = [judge(name, read(files), show_words=args.words) for name, files in sets.items()]
    if not args.files:
        judged += [judge(name, units, show_words=args.words) for (name,), units in demo_banks()]
    both = pl.concat([frame for frame in judged if frame is not None])
    show("all sets", both)
    for least in SHOWN:
        show(f"  likelihood {least} or more", both.filter(pl.col("likelihood") >= least))


def read(files: list[Path]) -> pl.DataFrame:
    lines = pl.concat([pl.read_ndjson(file, infer_schema_length=None).select("text", "room") for file in files])
    return lines.with_row_index("unit_id").with_columns(pl.col("unit_id").cast(pl.String).str.zfill(6))


def demo_banks() -> Iterable[tuple[tuple[object, ...], pl.DataFrame]]:
    """The demo's banks with the rooms that their author meant."""
    meant = demo_truth().select("unit_id", "room")
    return (
        demo_units()
        .select("unit_id", "bank_id", "text")
        .join(meant, on="unit_id")
        .group_by("bank_id", maintain_order=True)
    )


def judge(name: object, units: pl.DataFrame, *, show_words: bool) -> pl.DataFrame | None:
    """Opinions on one bank beside the truth; prints a line."""
    labels = classify_units(units.select(TEXTS.names()), load_taxonomy())
    vectors = embedder()(units["text"].to_list())
    is_sure = (labels["room_tier"] == "specific").fill_null(value=False)
    learned = learn_rooms(labels.filter(is_sure).select(ROOMED.names()), vectors[is_sure.to_numpy()])
    right = (labels["room"] == units["room"]).filter(~is_sure).mean()
    print(f"{name}: {len(units)} units, {is_sure.sum()} sure; the present room of the others is right in {right:.2f}")
    if learned is None:
        print("  too few to learn from")
        return None
    doubts = doubt_rooms(learned, labels.filter(~is_sure).select(ROOMED.names()), vectors[~is_sure.to_numpy()])
    texts = units.select(TEXTS.names())
    opinions = weigh_doubts(doubts, texts, load_taxonomy(), OpinionParams())
    if show_words:
        print(words_for_rules(opinions, learned.sure, texts).drop("examples"))
    found = opinions.join(units.select("unit_id", truth="room"), on="unit_id").select(*OPINIONS.names(), "truth")
    show("  doubted", found)
    return found


def show(name: str, found: pl.DataFrame) -> None:
    for part, rows in (
        (name, found),
        ("    backed by a rule", found.filter(pl.col("rule").is_not_null())),
        ("    neighbours alone", found.filter(pl.col("rule").is_null())),
    ):
        if len(rows):
            proposed, present = ((rows[column] == rows["truth"]).mean() for column in ("proposed_room", "room"))
            print(f"{part}: {len(rows)}; proposed room right {proposed:.2f}, present room right {present:.2f}")


if __name__ == "__main__":
    main()
