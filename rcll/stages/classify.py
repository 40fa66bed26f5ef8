"""Room, hall and layer of texts, by the first rule that matches."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from rcll.frames import DEFAULT_HALL, DEFAULT_LAYER, DEFAULT_ROOM, LABELS, TEXTS, require_schema
from rcll.taxonomy.language import detect_languages
from rcll.taxonomy.match import FEW, SHORT, Indices, program_for
from rcll.taxonomy.model import Dimension, Rule, Taxonomy
from rcll.taxonomy.normalise import MAX_CHARS, normalise_texts
from rcll.taxonomy.single import language_of_text, normalise_text

#: Language of a text for whose language the taxonomy has no rules.
UNSUPPORTED = "other"

#: Texts that are worked on together, at least and at most: regexes are compiled once a batch, strings are held
#: several times.
_LEAST_TEXTS, _MOST_TEXTS, _MOST_BYTES = 32_768, 131_072, 64_000_000

#: Labels of a text that no rule matches.
FALLBACKS: Mapping[Dimension, str] = {"room": DEFAULT_ROOM, "hall": DEFAULT_HALL, "layer": str(DEFAULT_LAYER)}


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
    """Label every text; docs/taxonomy.md says what a rule sees of it.

    Args:
        texts: frames.TEXTS; a null or empty text gets the fallbacks.
        taxonomy: the rules.
        params: how to classify.

    Returns:
        frames.LABELS, in the order of ``texts``; the same whatever the number of texts and threads.
    """
    params = params or ClassifyParams()
    frame = require_schema(texts.lazy().collect(), TEXTS, "texts")
    if frame.is_empty():
        return pl.DataFrame(schema=LABELS)
    if len(frame) <= FEW and all(len(text or "") <= SHORT for text in frame["text"]):
        return _classify_few(frame, taxonomy, params)
    batches = list(_batches(frame))
    if len(batches) == 1:
        return _classify(frame, taxonomy, params)
    with ThreadPoolExecutor(pl.thread_pool_size()) as threads:  # Polars works without the interpreter's lock
        return pl.concat(threads.map(partial(_classify, taxonomy=taxonomy, params=params), batches))


def language_of(lines: pl.Series, taxonomy: Taxonomy) -> pl.Series:
    """Return the language of normalised texts as the taxonomy knows it: a code, UNSUPPORTED, or null."""
    codes = detect_languages(lines)
    is_known = codes.is_in(list(taxonomy.languages)) | codes.is_null()
    if is_known.all():
        return codes
    return codes.zip_with(is_known, pl.repeat(UNSUPPORTED, len(codes), dtype=pl.String, eager=True))


def _batches(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    read = frame["text"].str.len_bytes().fill_null(0).clip(upper_bound=MAX_CHARS).cast(pl.Int64)
    share = max(len(frame) // pl.thread_pool_size() + 1, _LEAST_TEXTS)
    number = read.cum_sum().to_numpy() // _MOST_BYTES + np.arange(len(frame)) // min(share, _MOST_TEXTS)
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(frame)], strict=True):
        yield frame.slice(int(start), int(stop - start))


def _classify(frame: pl.DataFrame, taxonomy: Taxonomy, params: ClassifyParams) -> pl.DataFrame:
    lines = normalise_texts(frame["text"])
    row = pl.int_range(len(frame), dtype=pl.UInt32, eager=True)
    work = pl.DataFrame({"row": row, "text": lines, "language": language_of(lines, taxonomy)})
    parts = [
        _label(part, taxonomy, language, params)
        for (language,), part in work.partition_by("language", as_dict=True, maintain_order=True).items()
    ]
    labels = pl.concat(parts) if len(parts) == 1 else pl.concat(parts).sort("row")
    return labels.with_columns(frame["unit_id"]).select(LABELS.names())


def _classify_few(frame: pl.DataFrame, taxonomy: Taxonomy, params: ClassifyParams) -> pl.DataFrame:
    """Label a few short texts in Python, which needs no time to get going."""
    labels = [(unit_id, *_label_one(text, taxonomy, params)) for unit_id, text in frame.iter_rows()]
    return pl.DataFrame(labels, schema=LABELS, orient="row")


def _label_one(text: str | None, taxonomy: Taxonomy, params: ClassifyParams) -> tuple[object, ...]:
    """Return what LABELS has beside the id."""
    line = normalise_text(text)
    language = language_of_text(line)
    if language is not None and language not in taxonomy.languages:
        language = UNSUPPORTED
    program = program_for(taxonomy, language, _dimensions(params))
    found = [None if n < 0 else rules[n] for rules, n in zip(program.rules, program.first_of(line), strict=True)]
    room, hall, layer = [*found, None][:3]
    return (
        FALLBACKS["room"] if room is None else room.label,
        FALLBACKS["hall"] if hall is None else hall.label,
        DEFAULT_LAYER if layer is None else int(layer.label),
        *(None if rule is None else rule.id for rule in (room, hall, layer)),
        *(None if rule is None else rule.tier for rule in (room, hall)),
        language,
    )


def _dimensions(params: ClassifyParams) -> tuple[Dimension, ...]:
    return ("room", "hall", "layer") if params.use_layers else ("room", "hall")


def _label(work: pl.DataFrame, taxonomy: Taxonomy, language: object, params: ClassifyParams) -> pl.DataFrame:
    """Label texts of one language; ``work`` has row, text and language."""
    dimensions = _dimensions(params)
    program = program_for(taxonomy, language if isinstance(language, str) else None, dimensions)
    columns = [work["row"], work["language"]]
    for dimension, rules, found in zip(dimensions, program.rules, program.first(work["text"]), strict=True):
        columns += _columns(dimension, rules, found)
    labels = pl.DataFrame(columns)
    if not params.use_layers:
        labels = labels.with_columns(
            pl.lit(str(DEFAULT_LAYER)).alias("layer"), pl.lit(None, pl.String).alias("layer_rule")
        )
    return labels.with_columns(pl.col("layer").cast(pl.Int16))


def _columns(dimension: Dimension, rules: tuple[Rule, ...], found: Indices) -> list[pl.Series]:
    """Return label, rule and tier of each text; index -1, the fallback, stands behind the last rule."""
    last = pl.Series(np.where(found < 0, len(rules), found).astype(np.uint32))
    labels: list[str | None] = [*(rule.label for rule in rules), FALLBACKS[dimension]]
    ids: list[str | None] = [*(rule.id for rule in rules), None]
    tiers: list[str | None] = [*(rule.tier for rule in rules), None]
    named = {dimension: labels, f"{dimension}_rule": ids, f"{dimension}_tier": tiers}
    return [pl.Series(name, values, pl.String)[last] for name, values in named.items()]
