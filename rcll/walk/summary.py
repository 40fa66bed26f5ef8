"""What a plan or a run amounts to, in numbers that people compare: before, after, kept, skipped."""

from dataclasses import dataclass, field
from typing import Any

import polars as pl
from upath import UPath

from rcll.settings import Settings
from rcll.stages.plan import FIELDS, is_foreign_layer
from rcll.stages.quality import QualityLimits, quality
from rcll.walk.labels import read_plan

#: Frozen labels of a bank from which on a run says how to make them rcll's own.
MANY_FROZEN, MANY_FROZEN_SHARE = 20, 0.2
_NAMED = 3


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """Counts over one tenant's plan; tables map a label to units, most first.

    ``foreign_layers`` are stored values that no layer is; they are somebody's and kept.
    """

    n_units: int
    n_to_write: int
    n_to_record: int
    n_explicit: int
    foreign_layers: dict[str, int]
    skipped: dict[str, int]
    reasons: dict[str, int]
    before: dict[str, dict[str, int]] = field(repr=False)
    after: dict[str, dict[str, int]] = field(repr=False)
    per_bank: dict[str, dict[str, int]] = field(repr=False)
    quality: dict[str, Any] = field(repr=False)


def summarise_plan(parts: list[UPath], limits: QualityLimits | None = None) -> PlanSummary:
    """Count what a plan would do; the limits say when its labels as a whole deserve a warning."""
    plan = read_plan(parts)
    changed = plan.filter("is_changed")
    totals = plan.select(
        n_units=pl.len(),
        n_to_write=(pl.col("is_changed") & pl.col("writes_unit")).sum(),
        n_to_record=(pl.col("is_changed") & ~pl.col("writes_unit")).sum(),
        n_explicit=pl.col("is_explicit").sum(),
    ).collect()
    return PlanSummary(
        **totals.row(0, named=True),
        foreign_layers=_counts(plan.filter(is_foreign_layer(pl.col("old_layer"))), "old_layer"),
        skipped=_counts(plan.drop_nulls("skip"), "skip"),
        reasons=_counts(changed, "reason"),
        before={f: _counts(plan, f"old_{f}") for f in FIELDS},
        after={f: _counts(plan, f) for f in FIELDS},
        per_bank=_per_bank(plan),
        quality=quality(plan, _before(plan), limits).as_dict(),
    )


def quality_limits(settings: Settings) -> QualityLimits:
    """The limits that the user has set."""
    return QualityLimits(
        general=settings.quality_general,
        largest_room=settings.quality_largest_room,
        changed=settings.quality_changed,
        unsupported=settings.quality_unsupported,
    )


def frozen_hints(summary: PlanSummary) -> list[str]:
    """What to do about labels that may be nobody's: so many frozen in a bank, and layers that are none."""
    foreign = ", ".join(f"'{layer}' on {n:,}" for layer, n in list(summary.foreign_layers.items())[:_NAMED])
    layers = (
        f"units with a layer that is none, by value: {foreign}; expected 0 to 3 or L0 to L3; they are kept; "
        f"say rcll label UNIT --layer N, or rcll adopt --bank B"
    )
    return [layers] * bool(foreign) + [
        f"bank '{bank}': {counts['n_explicit']:,} of {counts['n_units']:,} units bear labels that rcll did not write; "
        f"they are kept. Where a fork or a restored backup set them, say rcll adopt --bank '{bank}'"
        for bank, counts in summary.per_bank.items()
        if counts["n_explicit"] >= max(MANY_FROZEN, MANY_FROZEN_SHARE * counts["n_units"])
    ]


def room_sizes(parts: list[UPath]) -> dict[tuple[str, str], int]:
    """Units per (bank, room) as they will stand, sorted by bank and room."""
    sizes = read_plan(parts).group_by("bank_id", "room").len().sort("bank_id", "room").collect()
    return {(bank, room): n for bank, room, n in sizes.iter_rows()}


def units_of_room(parts: list[UPath], bank: str, room: str) -> pl.DataFrame:
    """Units that will stand in a room, and in which hall: unit_id, hall; sorted."""
    chosen = read_plan(parts).filter(pl.col("bank_id") == bank, pl.col("room") == room)
    return chosen.select("unit_id", "hall").sort("unit_id").collect()


def _before(plan: pl.LazyFrame) -> pl.LazyFrame:
    """Labels before the run of the units that an earlier run had filed."""
    known = plan.filter(pl.col("reason") != "new")
    return known.select("unit_id", room=pl.col("old_room"), hall=pl.col("old_hall"))


def _counts(frame: pl.LazyFrame, column: str) -> dict[str, int]:
    labels = frame.group_by(pl.col(column).cast(pl.String).fill_null("unset")).len()
    return dict(labels.sort("len", column, descending=[True, False]).collect().iter_rows())


def _per_bank(plan: pl.LazyFrame) -> dict[str, dict[str, int]]:
    counted = (
        plan.group_by("bank_id")
        .agg(
            n_units=pl.len(),
            n_to_write=(pl.col("is_changed") & pl.col("writes_unit")).sum(),
            n_explicit=pl.col("is_explicit").sum(),
        )
        .sort("bank_id")
        .collect()
    )
    rows: dict[str, dict[str, Any]] = {row.pop("bank_id"): row for row in counted.iter_rows(named=True)}
    return rows
