"""Decides, field by field, what a run may write: the difference between proposal, bank and ledger.

The rule of ownership. A stored value belongs to rcll if it is unset, or equals the ledger's, or is one
that rcll wrote in an earlier run, or is the column's default (raw SQL that writes a default cannot be told
from a restored backup); everything else was set by somebody and is explicit. Explicit is never
overwritten. A label recorded as explicit comes back where the bank lost it (restore of an older backup);
NULL is how raw SQL hands a unit back to the rules.
"""

from dataclasses import dataclass

import polars as pl

from rcll.frames import CHANGES, DEFAULT_HALL, DEFAULT_LAYER, DEFAULT_ROOM, LABELS, UNITS, require_schema

_DEFAULTS = {"room": DEFAULT_ROOM, "hall": DEFAULT_HALL, "layer": str(DEFAULT_LAYER)}
FIELDS = tuple(_DEFAULTS)
_LAYERS = ("0", "1", "2", "3")

#: A label that does not fit the column is never written.
MAX_LABEL_CHARS = 64


@dataclass(frozen=True, slots=True)
class PlanParams:
    """What the comparison depends on besides the frames."""

    taxonomy_hash: str
    """Fingerprint of the rules and of the options that change labels."""


def needs_text(taxonomy_hash: str) -> pl.Expr:
    """Whether a unit (frames.UNITS) has to be classified again: new, edited, or other rules."""
    return (
        ~pl.col("is_known")
        | pl.col("ledger_text_hash").ne_missing(pl.col("text_hash"))
        | pl.col("ledger_taxonomy_hash").ne_missing(taxonomy_hash)
    )


def plan_labels(units: pl.DataFrame, labels: pl.DataFrame, params: PlanParams) -> pl.DataFrame:
    """Compare units with their proposed labels.

    Args:
        units: frames.UNITS, any order, a unit once.
        labels: frames.LABELS for the units that needed classification; the others keep their label.
        params: what else the comparison depends on.

    Returns:
        One row per unit, sorted by unit_id: frames.CHANGES plus ``is_changed`` (there is something to
        write), ``is_explicit`` (at least one field is frozen because somebody set it) and ``skip`` (why
        a unit is left alone altogether, else null).
    """
    require_schema(units, UNITS, "units")
    proposal = require_schema(labels, LABELS, "labels")
    joined = units.sort("unit_id").join(
        proposal.rename({field: f"new_{field}" for field in FIELDS}),
        on="unit_id",
        how="left",
        maintain_order="left",
    )
    staged = (
        joined.with_columns(stored_layer=layer_number(pl.col("layer")))
        .with_columns(is_fresh=needs_text(params.taxonomy_hash))
        .with_columns(is_kept=_is_held())
        .with_columns(*[_is_explicit(field).alias(f"{field}_explicit") for field in FIELDS])
        .with_columns(*[_decided(field).alias(f"{field}_decided") for field in FIELDS])
        .with_columns(*[_source(field).alias(f"{field}_by") for field in FIELDS])
    )
    return _as_changes(staged)


def layer_number(stored: pl.Expr) -> pl.Expr:
    """A stored layer as the text of its number: 'L2', 'l2' and '2' are '2'; anything else stays as it is."""
    return pl.coalesce(stored.str.extract(r"^\s*[lL]?([0-3])\s*$"), stored)


def is_foreign_layer(stored: pl.Expr) -> pl.Expr:
    """Whether a stored layer is a value that is no layer: '7', 'high'; an unset one is not."""
    is_set = stored.is_not_null() & (stored.str.strip_chars() != "")
    return is_set & ~layer_number(stored).is_in(_LAYERS)


def _stored(field: str) -> pl.Expr:
    return pl.col("stored_layer") if field == "layer" else pl.col(field)


def _ledger(field: str) -> pl.Expr:
    return pl.col(f"ledger_{field}").cast(pl.String)


def _is_unset(field: str) -> pl.Expr:
    return _stored(field).is_null() | (_stored(field).str.strip_chars() == "")


def _is_lost(field: str) -> pl.Expr:
    """The bank holds a default or one of rcll's own older values where the ledger holds something else."""
    return (_stored(field) == _DEFAULTS[field]) | pl.col(f"{field}_ours")


def _is_explicit(field: str) -> pl.Expr:
    by_ledger = pl.col("is_known") & (pl.col(f"{field}_source") == "explicit")
    same = _stored(field).eq_missing(_ledger(field))
    foreign = ~same & ~_is_lost(field)
    unknown = ~pl.col("is_known") & (_stored(field) != _DEFAULTS[field])
    return (~_is_unset(field) & (by_ledger | (pl.col("is_known") & foreign) | unknown)).fill_null(value=False)


def _is_held() -> pl.Expr:
    """An undo put a hold on the unit, and neither its text nor the rules have changed since."""
    return pl.col("is_held").fill_null(value=False) & ~pl.col("is_fresh")


def _decided(field: str) -> pl.Expr:
    """The value the field shall have, as text: explicit, then archived or held, then rule, then default."""
    by_person = (
        pl.when(_is_lost(field) & (pl.col(f"{field}_source") == "explicit"))
        .then(_ledger(field))
        .otherwise(_stored(field))
    )
    by_rule = pl.coalesce(pl.col(f"new_{field}").cast(pl.String), _ledger(field), pl.lit(_DEFAULTS[field]))
    keeps = pl.col("is_kept") | (pl.col(f"{field}_source") == "archived")
    return (
        pl.when(pl.col(f"{field}_explicit"))
        .then(by_person)
        .when(keeps.fill_null(value=False))
        .then(_ledger(field))
        .otherwise(by_rule)
    )


def _source(field: str) -> pl.Expr:
    kept = pl.col(f"{field}_source").is_in(["archived"]) | (
        ~pl.col("is_fresh") & pl.col(f"{field}_source").is_in(["rule", "adopted"])
    )
    return (
        pl.when(pl.col(f"{field}_explicit"))
        .then(pl.lit("explicit"))
        .when(kept.fill_null(value=False))
        .then(pl.col(f"{field}_source"))
        .otherwise(pl.lit("rule"))
    )


def _as_changes(staged: pl.DataFrame) -> pl.DataFrame:
    writes = pl.any_horizontal([pl.col(f"{f}_decided").ne_missing(_stored(f)) for f in FIELDS])
    # A layer outside 0..3 was set by somebody: it is kept, and recorded where it is a number at all.
    layer = pl.col("layer_decided").cast(pl.Int16, strict=False)
    ledger_learns = pl.col("is_fresh") | pl.any_horizontal(
        *[pl.col(f"{f}_decided").ne_missing(_ledger(f)) for f in ("room", "hall")],
        layer.ne_missing(pl.col("ledger_layer")),
        *[pl.col(f"{f}_by").ne_missing(pl.col(f"{f}_source")) for f in FIELDS],
    )
    unfit = pl.any_horizontal([pl.col(f"{f}_decided").str.len_chars() > MAX_LABEL_CHARS for f in FIELDS])
    return staged.with_columns(
        *[pl.col(f).alias(f"old_{f}") for f in FIELDS],
        *[pl.col(f"{f}_by").alias(f"{f}_source") for f in FIELDS],
        *[_why(f, "rule") for f in FIELDS],
        *[_why(f, "tier") for f in ("room", "hall")],
        pl.when("is_fresh").then(pl.col("language")).otherwise(pl.col("ledger_language")).alias("language"),
        pl.col("room_decided").alias("room"),
        pl.col("hall_decided").alias("hall"),
        layer.alias("layer"),
        writes.alias("writes_unit"),
        _reason().alias("reason"),
        ((writes | ledger_learns) & ~unfit).alias("is_changed"),
        pl.any_horizontal([pl.col(f"{f}_explicit") for f in FIELDS]).alias("is_explicit"),
        pl.when(unfit).then(pl.lit(f"label longer than {MAX_LABEL_CHARS} characters")).alias("skip"),
    ).select(*CHANGES.names(), "is_changed", "is_explicit", "skip")


def _why(field: str, what: str) -> pl.Expr:
    """Rule or tier behind a field that no person set; where the unit was not classified again, as recorded."""
    name = f"{field}_{what}"
    found = pl.when("is_fresh").then(pl.col(name)).otherwise(pl.col(f"ledger_{name}"))
    return pl.when(~pl.col(f"{field}_explicit")).then(found).alias(name)


def _reason() -> pl.Expr:
    return (
        pl.when(~pl.col("is_known"))
        .then(pl.lit("new"))
        .when(pl.col("ledger_text_hash").ne_missing(pl.col("text_hash")))
        .then(pl.lit("edited"))
        .when(pl.col("is_fresh"))
        .then(pl.lit("taxonomy"))
        .otherwise(pl.lit("restored"))
    )
