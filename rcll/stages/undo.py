"""Decides, field by field, what the undo of a run gives back: what the run wrote and nobody has changed since."""

import polars as pl

from rcll.frames import CHANGES, require_schema
from rcll.stages.plan import FIELDS, layer_number

_DECISIONS = (
    *("room_source", "hall_source", "layer_source", "room_rule", "hall_rule", "layer_rule"),
    *("room_tier", "hall_tier"),
)

#: A unit that a run wrote: what it was before (``old_*``), what the run wrote (``new_*``), what it bears now, what
#: the ledger says now, and what the ledger said before (``was_*``, null where it had no row). Labels are stored
#: values as text, all null where the unit is gone. ``is_overwritten`` tells that a later run, not undone, wrote it.
UNDO = pl.Schema(
    {
        "unit_id": pl.String,
        "bank_id": pl.String,
        "is_gone": pl.Boolean,
        "is_overwritten": pl.Boolean,
        "text_hash": pl.String,
        **{f"{when}_{field}": pl.String for when in ("old", "new") for field in FIELDS},
        **dict.fromkeys(FIELDS, pl.String),
        "ledger_text_hash": pl.String,
        "ledger_taxonomy_hash": pl.String,
        "ledger_layer": pl.Int16,
        **dict.fromkeys(_DECISIONS, pl.String),
        "language": pl.String,
        **dict.fromkeys([f"was_{name}" for name in _DECISIONS], pl.String),
    }
)


def plan_undo(written: pl.DataFrame) -> pl.DataFrame:
    """Say what to give back to each unit that a run wrote.

    A field is given back if the run changed it, it still reads as the run wrote it, and nobody has made it
    explicit since.

    Args:
        written: UNDO, a unit once, any order.

    Returns:
        One row per unit, sorted by unit_id: frames.CHANGES plus ``stored_layer`` (as it was spelled),
        ``ledger_taxonomy_hash`` and ``outcome``: restore, or why not: gone, edited, relabelled, already.
    """
    units = require_schema(written, UNDO, "written").sort("unit_id")
    return (
        units.with_columns(*[_is_restored(field).alias(f"{field}_back") for field in FIELDS])
        .with_columns(outcome=_outcome())
        .select(
            "unit_id",
            "bank_id",
            "text_hash",
            *[pl.col(field).alias(f"old_{field}") for field in FIELDS],
            *[_back(field, pl.col(f"old_{field}"), pl.col(field)).alias(field) for field in FIELDS[:2]],
            _back("layer", _number("old_layer"), pl.col("ledger_layer")).alias("layer"),
            *[_source(field) for field in FIELDS],
            *[_back(f, pl.col(f"was_{f}_rule"), pl.col(f"{f}_rule")).alias(f"{f}_rule") for f in FIELDS],
            *[_back(f, pl.col(f"was_{f}_tier"), pl.col(f"{f}_tier")).alias(f"{f}_tier") for f in FIELDS[:2]],
            "language",
            pl.lit(value=True).alias("writes_unit"),
            pl.lit("undo").alias("reason"),
            _back("layer", pl.col("old_layer"), pl.col("layer")).alias("stored_layer"),
            "ledger_taxonomy_hash",
            "outcome",
        )
        .select(*CHANGES.names(), "stored_layer", "ledger_taxonomy_hash", "outcome")
    )


def _is_changed(field: str) -> pl.Expr:
    return pl.col(f"old_{field}").ne_missing(pl.col(f"new_{field}"))


def _is_restored(field: str) -> pl.Expr:
    untouched = pl.col(field).eq_missing(pl.col(f"new_{field}"))
    return _is_changed(field) & untouched & pl.col(f"{field}_source").ne_missing("explicit")


def _outcome() -> pl.Expr:
    is_edited = pl.col("ledger_text_hash").is_not_null() & pl.col("text_hash").ne_missing(pl.col("ledger_text_hash"))
    is_back = pl.all_horizontal([pl.col(f).eq_missing(pl.col(f"old_{f}")) for f in FIELDS])
    return (
        pl.when("is_gone")
        .then(pl.lit("gone"))
        .when(is_back)
        .then(pl.lit("already"))
        .when("is_overwritten")
        .then(pl.lit("relabelled"))
        .when(is_edited)
        .then(pl.lit("edited"))
        .when(pl.any_horizontal([pl.col(f"{f}_back") for f in FIELDS]))
        .then(pl.lit("restore"))
        .otherwise(pl.lit("relabelled"))
    )


def _back(field: str, before: pl.Expr, now: pl.Expr) -> pl.Expr:
    return pl.when(f"{field}_back").then(before).otherwise(now)


def _number(column: str) -> pl.Expr:
    return layer_number(pl.col(column)).cast(pl.Int16, strict=False)


def _source(field: str) -> pl.Expr:
    """Who decided the value that is given back; where the ledger had no row, nobody had."""
    before = pl.col(f"was_{field}_source").fill_null("rule")
    return _back(field, before, pl.col(f"{field}_source").fill_null("rule")).alias(f"{field}_source")
