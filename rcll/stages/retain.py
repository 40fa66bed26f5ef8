"""Labels of units as they come: what the client sets is explicit, the rules decide the rest."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from rcll.frames import LABELS, TEXTS
from rcll.stages.classify import ClassifyParams, classify_units
from rcll.taxonomy import Taxonomy

#: Labels of new units: frames.LABELS beside who decided each field, and the fingerprint of the text.
NEW_LABELS = pl.Schema(
    {
        **LABELS,
        "room_source": pl.String,
        "hall_source": pl.String,
        "layer_source": pl.String,
        "text_hash": pl.String,
    }
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a client asks for a unit; None leaves the field to the rules."""

    room: str | None = None
    hall: str | None = None
    layer: int | None = None

    @property
    def is_set(self) -> bool:
        """Whether anything is asked for."""
        return self != Wanted()


def label_new_units(
    unit_ids: Sequence[str],
    texts: Sequence[str],
    wanted: Sequence[Wanted],
    taxonomy: Taxonomy,
    *,
    use_layers: bool,
    by_hand: str,
) -> pl.DataFrame:
    """Label units that nobody has filed yet.

    Args:
        unit_ids: n_units ids.
        texts: n_units texts.
        wanted: what the client asks for each.
        taxonomy: the rules.
        use_layers: let layer rules decide.
        by_hand: what stands in place of a rule where the client decided.

    Returns:
        NEW_LABELS, in the order of the ids.
    """
    frame = pl.DataFrame({"unit_id": list(unit_ids), "text": list(texts)}, schema=TEXTS)
    labels = classify_units(frame, taxonomy, ClassifyParams(use_layers=use_layers))
    rows = [_decide(row, ask, by_hand) for row, ask in zip(labels.iter_rows(named=True), wanted, strict=True)]
    hashes = pl.Series("text_hash", [text_hash(text) for text in texts], dtype=pl.String)
    return pl.DataFrame(rows, schema={k: v for k, v in NEW_LABELS.items() if k != "text_hash"}).with_columns(hashes)


def text_hash(text: str) -> str:
    """Fingerprint of a text as the database computes it."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _decide(row: dict[str, object], wanted: Wanted, by_hand: str) -> dict[str, object]:
    decided = dict(row)
    for field in ("room", "hall", "layer"):
        value = getattr(wanted, field)
        decided[f"{field}_source"] = "rule" if value is None else "explicit"
        if value is not None:
            decided |= {field: value, f"{field}_rule": by_hand}
            if field != "layer":
                decided[f"{field}_tier"] = None
    return decided
