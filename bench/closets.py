"""Grouping by several methods on labelled units: ``python -m bench.closets FILE.jsonl… [--rule-halls]``.

Each line holds id, bank, room, hall, text and group (null: belongs to none); rooms of 20 units or more count.
The figure is pairwise precision, recall and F1 over (bank, room): pairs in parts of three units or more;
pairs that stand in a true part of two are neither required nor wrong. Each method has one threshold, which is
tuned on the other files (best F1 at precision >= .72) and then measured on this one.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import wordllama
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from rcll.frames import ROOM_UNITS
from rcll.stages.classify import classify_units
from rcll.stages.closets import ClosetParams, group_units
from rcll.stages.similarity import Floats, centred_rows, char_rows, compared_text, word_rows
from rcll.taxonomy import load_taxonomy

TUNED_PRECISION = 0.72
MIN_ROOM = 20
Pairs = set[tuple[int, int]]


@dataclass(frozen=True)
class LabelledRoom:
    """Units of one (bank, room) (frames.ROOM_UNITS) with their vectors and the group of each, or None."""

    units: pl.DataFrame
    vectors: Floats
    groups: list[str | None]

    def true_pairs(self) -> tuple[Pairs, Pairs]:
        """Pairs that have to be found, and those of parts of two, which are neither required nor wrong."""
        parts = together(self.groups)
        wanted = {pair for part in parts if len(part) > 2 for pair in combinations(part, 2)}
        return wanted, {pair for part in parts if len(part) == 2 for pair in combinations(part, 2)}


@dataclass(frozen=True)
class Score:
    """Counts of pairs; adds up over rooms."""

    right: int = 0
    found: int = 0
    wanted: int = 0

    def __add__(self, other: "Score") -> "Score":
        return Score(self.right + other.right, self.found + other.found, self.wanted + other.wanted)

    @property
    def precision(self) -> float:
        """Share of the found pairs that are right."""
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """Share of the wanted pairs that were found."""
        return self.right / self.wanted if self.wanted else 1.0

    @property
    def f1(self) -> float:
        """Harmonic mean of the two."""
        return 2 * self.right / max(1, self.found + self.wanted)

    def __str__(self) -> str:
        return f"{self.precision:.3f} / {self.recall:.3f} / {self.f1:.3f}"


def embedder() -> Callable[[list[str]], Floats]:
    """The offline embeddings (256 dimensions)."""
    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    return lambda texts: np.asarray(model.embed(texts, norm=True), np.float32)


def read_rooms(path: Path, embed: Callable[[list[str]], Floats], *, rule_halls: bool = False) -> list[LabelledRoom]:
    """Rooms of a labelled file; with halls as the rules give them instead of the file's, if asked."""
    lines = pl.read_ndjson(path, infer_schema_length=None).filter(pl.col("room") != "general")
    rooms: list[LabelledRoom] = []
    for room in lines.sort("bank", "room", "id").partition_by("bank", "room", maintain_order=True):
        if len(room) < MIN_ROOM:
            continue
        units = room.select(
            unit_id="id",
            hall="hall",
            text="text",
            text_hash="id",
            happened_at=pl.lit(None, ROOM_UNITS["happened_at"]),
        )
        if rule_halls:
            units = units.with_columns(classify_units(units.select("unit_id", "text"), load_taxonomy())["hall"])
        rooms.append(LabelledRoom(units, embed(units["text"].to_list()), room["group"].to_list()))
    return rooms


def together(labels: Iterable[object]) -> list[list[int]]:
    """Rows that bear the same label; rows without one belong nowhere."""
    parts: dict[object, list[int]] = defaultdict(list)
    for row, label in enumerate(labels):
        if label is not None:
            parts[label].append(row)
    return list(parts.values())


def score_room(room: LabelledRoom, labels: Iterable[object]) -> Score:
    wanted, spared = room.true_pairs()
    parts = [part for part in together(labels) if len(part) > 2]
    found = {pair for part in parts for pair in combinations(part, 2)} - spared
    return Score(len(found & wanted), len(found), len(wanted))


def ours(room: LabelledRoom, params: ClosetParams) -> list[int | None]:
    """Group numbers by ``group_units``."""
    groups = group_units(room.units, room.vectors, params)
    number = dict(zip(groups["unit_id"], groups["group"], strict=True))
    return [number.get(unit_id) for unit_id in room.units["unit_id"]]


def similarities(room: LabelledRoom) -> dict[str, np.ndarray]:
    """Cosine of centred vectors, of character 4-5-grams and of words, and their means."""
    texts = [compared_text(text) for text in room.units["text"]]
    vectors, chars, words = centred_rows(room.vectors), char_rows(texts), word_rows(texts)
    dense, char, word = vectors @ vectors.T, (chars @ chars.T).toarray(), (words @ words.T).toarray()
    return {
        "average linkage, vectors": dense,
        "average linkage, characters": char,
        "average linkage, vectors + characters": (dense + char) / 2,
        "average linkage, vectors + chars + words": (dense + char + word) / 3,
    }


def average_linkage(similarity: np.ndarray, threshold: float) -> list[int]:
    distance = np.clip(1 - similarity, 0, None)
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform(distance, checks=False), "average")
    return fcluster(tree, 1 - threshold, "distance").tolist()


def curves(rooms: list[LabelledRoom]) -> dict[str, list[Score]]:
    """Score of each method at each of its thresholds."""
    found: dict[str, list[Score]] = {}
    prepared = [similarities(room) for room in rooms]
    for name in prepared[0]:
        found[name] = [
            sum((score_room(r, average_linkage(s[name], t)) for r, s in zip(rooms, prepared, strict=True)), Score())
            for t in np.arange(0.02, 0.5, 0.01)
        ]
    for name, params in {
        "ours, trigrams without stems": replace(ClosetParams(), lexical_weight=16.0, stem_weight=0.0),
        "ours without halls": replace(ClosetParams(), shared_hall=0.0, hall_pairs=1e9),
        "ours, halls weighed alike everywhere": replace(ClosetParams(), hall_pairs=1e9),
        "ours": ClosetParams(),
    }.items():
        found[name] = [
            sum((score_room(room, ours(room, replace(params, member_evidence=t))) for room in rooms), Score())
            for t in np.arange(1.6, 4.4, 0.2)
        ]
    return found


def tuned(scores: list[Score]) -> int:
    """Where F1 is best at the precision asked for; else where precision is best."""
    good = [i for i, score in enumerate(scores) if score.precision >= TUNED_PRECISION]
    return max(good, key=lambda i: scores[i].f1) if good else max(range(len(scores)), key=lambda i: scores[i].precision)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--rule-halls", action="store_true", help="halls as the rules give them")
    args = parser.parse_args()
    embed = embedder()
    rooms = {path.stem: read_rooms(path, embed, rule_halls=args.rule_halls) for path in args.files}
    print("as shipped: precision / recall / F1")
    for name, labelled in rooms.items():
        print(f"  {name:12} {sum((score_room(room, ours(room, ClosetParams())) for room in labelled), Score())}")
    if len(rooms) < 2:
        return
    measured = {name: curves(labelled) for name, labelled in rooms.items()}
    print(f"threshold tuned on the other files (precision >= {TUNED_PRECISION}), measured on this one")
    for method in next(iter(measured.values())):
        scores: list[Score] = []
        for name in rooms:
            others = [measured[other][method] for other in rooms if other != name]
            at = tuned([sum(each, Score()) for each in zip(*others, strict=True)])
            scores.append(measured[name][method][at])
            print(f"  {method:42} {name:12} {scores[-1]}")
        print(f"  {method:42} {'all together':12} {sum(scores, Score())}")


if __name__ == "__main__":
    main()
