"""The second opinion of a snapshot's banks: reads units and vectors part by part, so that a large bank fits."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from rcll.analyst.layout import Snapshot, table_files
from rcll.errors import InputError
from rcll.frames import TEXTS
from rcll.stages.opinion import (
    DOUBTS,
    ROOMED,
    Learned,
    OpinionParams,
    doubt_rooms,
    learn_rooms,
    spread,
    weigh_doubts,
    words_for_rules,
)
from rcll.stages.similarity import Floats
from rcll.taxonomy.model import Taxonomy

_UNITS = ("unit_id", "room", "room_source", "room_tier")


@dataclass(frozen=True, slots=True)
class BankOpinion:
    """What there is to say of a bank.

    Attributes:
        n_sure: units whose rooms were set by a person or by a specific rule.
        n_learned: those of them that have a vector and were learned from; 0 if they were too few.
        opinions: stages.opinion.OPINIONS and the text of each unit.
        words: stages.suggest.SUGGESTIONS, words by which rules could do it.
    """

    bank_id: str
    n_units: int
    n_sure: int
    n_learned: int
    opinions: pl.DataFrame
    words: pl.DataFrame


def second_opinion(
    snapshot: Snapshot, bank: str, taxonomy: Taxonomy, params: OpinionParams | None = None
) -> BankOpinion:
    """Which units of a bank stand elsewhere than those that read like them; nothing is written.

    Raises:
        InputError: the snapshot has no vectors, is torn, or lacks a column that an older rcll did not write.
    """
    with _whole(snapshot):
        return _opinion(snapshot, bank, taxonomy, params or OpinionParams())


def _opinion(snapshot: Snapshot, bank: str, taxonomy: Taxonomy, params: OpinionParams) -> BankOpinion:
    if not snapshot.manifest.has_embeddings:
        raise InputError(
            f"snapshot {snapshot.path} holds no embeddings; expected them; make one without --no-embeddings"
        )
    units = _read(snapshot, "units", bank, _UNITS)
    is_sure = (pl.col("room_source") == "explicit") | (
        (pl.col("room_source") == "rule") & (pl.col("room_tier") == "specific")
    )
    sure = units.filter(is_sure).select(ROOMED.names())
    others = units.filter(is_sure.fill_null(value=False).not_()).select(ROOMED.names())
    learned = _learn(snapshot, bank, spread(sure, params), params)
    if learned is None:
        doubts, known = pl.DataFrame(schema=DOUBTS), pl.DataFrame(schema=ROOMED)
    else:
        parts = _vectors(snapshot, bank, others)
        found = [doubt_rooms(learned, part, vectors, params) for part, vectors in parts]
        doubts, known = pl.concat([pl.DataFrame(schema=DOUBTS), *found]), learned.sure
    texts = _texts(snapshot, bank, pl.concat([doubts["unit_id"], known["unit_id"]]))
    opinions = weigh_doubts(doubts, texts, taxonomy, params)
    words = words_for_rules(opinions, known, texts)
    shown = opinions.join(texts, on="unit_id", how="left", maintain_order="left")
    return BankOpinion(bank, len(units), len(sure), len(known), shown, words)


def _learn(snapshot: Snapshot, bank: str, sure: pl.DataFrame, params: OpinionParams) -> Learned | None:
    """Read the vectors of the sure units; too few of them are not read at all."""
    if len(sure) < params.least_sure:
        return None
    parts = list(_vectors(snapshot, bank, sure))
    if not parts:
        return None
    rows = pl.concat([part for part, _ in parts]).with_row_index("row").sort("unit_id")
    vectors = np.concatenate([vectors for _, vectors in parts])
    return learn_rooms(rows.select(ROOMED.names()), vectors[rows["row"].to_numpy()], params)


def _vectors(snapshot: Snapshot, bank: str, units: pl.DataFrame) -> Iterator[tuple[pl.DataFrame, Floats]]:
    """Those of the units that have a vector, with it, as many at a time as lie in a file."""
    for file in table_files([snapshot], "embeddings"):
        rows = pl.scan_parquet(file, hive_partitioning=False).filter(pl.col("bank_id") == bank)
        part = rows.select("unit_id", "embedding").collect().join(units, on="unit_id", maintain_order="left")
        if not part.is_empty():
            dims = len(part["embedding"][0])
            yield part.select(ROOMED.names()), part["embedding"].list.to_array(dims).to_numpy()


def _texts(snapshot: Snapshot, bank: str, unit_ids: pl.Series) -> pl.DataFrame:
    """frames.TEXTS of the units, sorted by id."""
    return _read(
        snapshot, "units", bank, TEXTS.names(), lambda rows: rows.filter(pl.col("unit_id").is_in(unit_ids.implode()))
    )


def _read(
    snapshot: Snapshot,
    table: str,
    bank: str,
    columns: list[str] | tuple[str, ...],
    where: Callable[[pl.LazyFrame], pl.LazyFrame] = lambda rows: rows,
) -> pl.DataFrame:
    """Columns of a bank's rows, sorted by unit."""
    files: list[Path] = table_files([snapshot], table)
    if not files:
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
    rows = pl.scan_parquet(files, hive_partitioning=False)
    missing = sorted(set(columns) - set(rows.collect_schema().names()))
    if missing:
        raise InputError(
            f"snapshot {snapshot.path} lacks column {missing[0]} of {table}; expected one of today; run rcll snapshot"
        )
    return where(rows.filter(pl.col("bank_id") == bank)).select(columns).sort("unit_id").collect()


@contextmanager
def _whole(snapshot: Snapshot) -> Generator[None]:
    """Say in one line that a file of the snapshot is torn."""
    try:
        yield
    except (pl.exceptions.ComputeError, OSError) as error:
        reason = str(error).splitlines()[0][:200]
        raise InputError(f"{snapshot.path} cannot be read: {reason}; copy it again or make a new snapshot") from None
