"""Table ``quality`` of a snapshot: shares of each bank's units by which its labels can be judged."""

from pathlib import Path

import polars as pl

from rcll.frames import DEFAULT_ROOM
from rcll.stages.classify import UNSUPPORTED
from rcll.tables import QUALITY


def measure_banks(units: Path) -> pl.DataFrame:
    """Measure every bank of a folder of unit parts.

    Returns:
        tables.QUALITY, sorted by bank; empty where there are no units.
    """
    files = sorted(units.rglob("*.parquet"))
    if not files:
        return pl.DataFrame(schema=QUALITY)
    columns = ["bank_id", "room", "room_rule", "language", "room_source", "hall_source", "layer_source"]
    frame = pl.scan_parquet(files, hive_partitioning=False).select(columns)
    is_explicit = pl.any_horizontal(pl.col("^.*_source$") == "explicit").fill_null(value=False)
    shares = frame.group_by("bank_id").agg(
        n_units=pl.len().cast(pl.Int64),
        general_share=(pl.col("room").fill_null(DEFAULT_ROOM) == DEFAULT_ROOM).mean(),
        undecided_share=pl.col("room_rule").is_null().mean(),
        unsupported_share=(pl.col("language") == UNSUPPORTED).fill_null(value=False).mean(),
        explicit_share=is_explicit.mean(),
    )
    largest = (
        frame.filter(pl.col("room") != DEFAULT_ROOM)
        .group_by("bank_id", "room")
        .len("n_room")
        .sort("bank_id", "n_room", "room", descending=[False, True, False])
        .group_by("bank_id", maintain_order=True)
        .first()
    )
    return (
        shares.join(largest, on="bank_id", how="left")
        .with_columns(largest_share=pl.col("n_room").fill_null(0) / pl.col("n_units"))
        .rename({"room": "largest_room"})
        .select(QUALITY.names())
        .sort("bank_id")
        .collect(engine="streaming")
    )
