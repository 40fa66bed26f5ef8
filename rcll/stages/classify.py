"""Room, hall and layer of texts, by the first rule that matches."""

from dataclasses import dataclass

import polars as pl

from rcll.frames import DEFAULT_HALL, DEFAULT_LAYER, DEFAULT_ROOM, LABELS, TEXTS, require_schema
from rcll.taxonomy.language import detect_texts
from rcll.taxonomy.match import program_for
from rcll.taxonomy.model import Dimension, Taxonomy
from rcll.taxonomy.normalise import normalise_texts

#: Language of a text for whose language the taxonomy has no rules.
UNSUPPORTED = "other"


@dataclass(frozen=True, slots=True)
class ClassifyParams:
    """How to classify.

    Attributes:
        use_layers: let layer rules decide; otherwise every unit gets the default layer.
    """

    use_layers: bool = False


def classify_units(
    texts: pl.DataFrame | pl.LazyFrame, taxonomy: Taxonomy, params: ClassifyParams | None = None
) -> pl.DataFrame:
    """Label every text; see docs/taxonomy.md for what a rule sees.

    Args:
        texts: frames.TEXTS; a null or empty text gets the fallbacks.
        taxonomy: the rules.
        params: how to classify.

    Returns:
        frames.LABELS, in the order of ``texts``.
    """
    params = params or ClassifyParams()
    frame = require_schema(texts.lazy().collect(), TEXTS, "texts")
    return _classify(frame, taxonomy, params)


def _classify(frame: pl.DataFrame, taxonomy: Taxonomy, params: ClassifyParams) -> pl.DataFrame:
    lines = normalise_texts(frame["text"])
    language = detect_texts(lines)
    language = language.replace_strict({c: c for c in taxonomy.languages}, default=UNSUPPORTED).set(
        language.is_null(), None
    )
    work = pl.DataFrame(
        {"row": pl.int_range(len(frame), dtype=pl.UInt32, eager=True), "text": lines, "language": language}
    )
    parts = [_label_language(part, taxonomy, params) for part in work.partition_by("language")]
    if not parts:
        return pl.DataFrame(schema=LABELS)
    labels = pl.concat(parts).sort("row")
    return labels.with_columns(frame["unit_id"]).select(LABELS.names()).cast(LABELS)


def _label_language(part: pl.DataFrame, taxonomy: Taxonomy, params: ClassifyParams) -> pl.DataFrame:
    language: str | None = part["language"][0]
    room = _label(part["text"], taxonomy, language, "room", DEFAULT_ROOM)
    hall = _label(part["text"], taxonomy, language, "hall", DEFAULT_HALL)
    columns = [part["row"], part["language"], *room, *hall]
    if params.use_layers:
        layer, layer_rule, _ = _label(part["text"], taxonomy, language, "layer", str(DEFAULT_LAYER))
        columns += [layer.cast(pl.Int16), layer_rule]
    else:
        columns += [
            pl.Series("layer", [DEFAULT_LAYER] * len(part), pl.Int16),
            pl.Series("layer_rule", [None] * len(part), pl.String),
        ]
    return pl.DataFrame(columns)


def _label(
    texts: pl.Series, taxonomy: Taxonomy, language: str | None, dimension: Dimension, fallback: str
) -> tuple[pl.Series, pl.Series, pl.Series]:
    program = program_for(taxonomy, language, dimension)
    rules, found = program.rules, pl.Series(program.first(texts))
    known = found.set(found < 0, None)
    return (
        pl.Series([r.label for r in rules], dtype=pl.String).gather(known).fill_null(fallback).alias(dimension),
        pl.Series([r.id for r in rules], dtype=pl.String).gather(known).alias(f"{dimension}_rule"),
        pl.Series([r.tier for r in rules], dtype=pl.String).gather(known).alias(f"{dimension}_tier"),
    )
