"""How well predicted labels agree with true ones."""

from dataclasses import dataclass, fields
from typing import Any

import polars as pl

from rcll.errors import RcllError
from rcll.frames import DEFAULT_HALL, DEFAULT_ROOM

_FALLBACK = {"room": DEFAULT_ROOM, "hall": DEFAULT_HALL}


@dataclass(frozen=True, slots=True)
class Agreement:
    """One dimension against the truth.

    Attributes:
        accuracy: share of units with the right label.
        macro_f1: mean F1 over the labels that the truth or the prediction names.
        coverage: share of units that a rule decided, not the fallback.
        per_label: label, precision, recall, f1, n_true, n_predicted; sorted by label. Precision is null
            where nothing was predicted, recall where nothing was true, f1 is 0 in both cases.
        confusion: truth, predicted, n; most frequent first, agreements included.
        per_tier: tier (null at the fallback), n, precision: how far each tier can be trusted.
    """

    accuracy: float
    macro_f1: float
    coverage: float
    per_label: pl.DataFrame
    confusion: pl.DataFrame
    per_tier: pl.DataFrame


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Labels against the truth, over ``n_units`` units.

    Attributes:
        both: share of units with room and hall right.
        layer_exact: share with the right layer; None where the truth names no layer.
        layer_near: share with the layer right or one off.
        languages: language, n, room, hall: units per language and the accuracies there.
    """

    n_units: int
    room: Agreement
    hall: Agreement
    both: float
    layer_exact: float | None
    layer_near: float | None
    languages: pl.DataFrame

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; tables become lists of rows."""
        return _plain(self)


def evaluate_labels(predicted: pl.DataFrame, truth: pl.DataFrame) -> Evaluation:
    """Compare labels with the truth.

    Args:
        predicted: frames.LABELS.
        truth: unit_id, room, hall and, if known, layer, one row for each unit to judge.

    Raises:
        RcllError: no unit to judge, or one without a prediction.
    """
    columns = [c for c in ("unit_id", "room", "hall", "layer") if c in truth.columns]
    joined = truth.select(pl.col("unit_id"), pl.col(columns[1:]).name.prefix("true_")).join(
        predicted, on="unit_id", how="left", maintain_order="left", validate="m:1"
    )
    if joined.is_empty() or joined["room"].null_count():
        missing = joined["room"].null_count()
        raise RcllError(f"{missing} of {len(joined)} units have no predicted label; expected one for each, and a unit")
    room_right, hall_right = pl.col("room") == pl.col("true_room"), pl.col("hall") == pl.col("true_hall")
    layers = joined.drop_nulls("true_layer") if "true_layer" in joined.columns else joined.clear()
    off = (layers["layer"] - layers["true_layer"]).abs() if len(layers) else None
    return Evaluation(
        n_units=len(joined),
        room=_agreement(joined, "room"),
        hall=_agreement(joined, "hall"),
        both=_share(joined.select(room_right & hall_right).to_series()),
        layer_exact=None if off is None else _share(off == 0),
        layer_near=None if off is None else _share(off <= 1),
        languages=joined.group_by("language")
        .agg(pl.len().alias("n"), room_right.mean().alias("room"), hall_right.mean().alias("hall"))
        .sort(["n", "language"], descending=[True, False], nulls_last=True),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, pl.DataFrame):
        return value.to_dicts()
    if isinstance(value, Evaluation | Agreement):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return value


def _agreement(joined: pl.DataFrame, dimension: str) -> Agreement:
    truth, found = pl.col(f"true_{dimension}"), pl.col(dimension)
    confusion = (
        joined.group_by(truth.alias("truth"), found.alias("predicted"))
        .agg(pl.len().alias("n"))
        .sort(["n", "truth", "predicted"], descending=[True, False, False])
    )
    per_label = _per_label(confusion)
    return Agreement(
        accuracy=_share(joined.select(truth == found).to_series()),
        macro_f1=float(per_label["f1"].sum()) / len(per_label),
        coverage=_share(joined[f"{dimension}_rule"].is_not_null()),
        per_label=per_label,
        confusion=confusion,
        per_tier=joined.group_by(pl.col(f"{dimension}_tier").alias("tier"))
        .agg(pl.len().alias("n"), (truth == found).mean().alias("precision"))
        .sort("tier", nulls_last=True),
    )


def _per_label(confusion: pl.DataFrame) -> pl.DataFrame:
    n = pl.col("n")
    right = confusion.filter(pl.col("truth") == pl.col("predicted")).select(label="truth", right=n)
    true = confusion.group_by(label="truth").agg(n.sum().alias("n_true"))
    predicted = confusion.group_by(label="predicted").agg(n.sum().alias("n_predicted"))
    precision, recall = pl.col("right") / pl.col("n_predicted"), pl.col("right") / pl.col("n_true")
    counts = ("right", "n_true", "n_predicted")
    return (
        true.join(predicted, on="label", how="full", coalesce=True)
        .join(right, on="label", how="left")
        .with_columns(pl.col(counts).fill_null(0).cast(pl.Int64))
        .select(
            "label",
            pl.when(pl.col("n_predicted") > 0).then(precision).alias("precision"),
            pl.when(pl.col("n_true") > 0).then(recall).alias("recall"),
            (2 * pl.col("right") / (pl.col("n_true") + pl.col("n_predicted"))).alias("f1"),
            "n_true",
            "n_predicted",
        )
        .sort("label")
    )


def _share(flags: pl.Series) -> float:
    return int(flags.sum()) / len(flags)
