"""Units as lines of JSON: the offline way in and out, without any database."""

import json
import math
from collections.abc import Iterable, Iterator
from itertools import islice
from textwrap import shorten
from typing import Any, cast

import polars as pl

from rcll.errors import InputError
from rcll.frames import TEXTS
from rcll.stages.classify import ClassifyParams, classify_units
from rcll.taxonomy import Taxonomy

#: Lines that are classified together: enough for the regex engine's fast path.
BATCH_LINES = 50_000
_ADDED = ("room", "hall", "layer", "room_rule", "hall_rule")


def read_lines(lines: Iterable[bytes], name: str) -> Iterator[dict[str, Any]]:
    """Parse JSON objects, one a line; blank lines are passed over.

    Raises:
        InputError: a line is no UTF-8 or no JSON object; the message has its number.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            value = json.loads(text, parse_constant=_no_number, parse_float=_finite)
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
            raise InputError(f"{name}:{number}: not JSON ({reason}); expected one JSON object a line") from None
        if not isinstance(value, dict):
            kind = type(value).__name__
            raise InputError(f"{name}:{number}: a JSON {kind}; expected an object with a 'text'")
        yield cast("dict[str, Any]", value)


def classify_lines(
    objects: Iterable[dict[str, Any]], taxonomy: Taxonomy, *, use_layers: bool
) -> Iterator[dict[str, Any]]:
    """Add room, hall, layer, room_rule and hall_rule to each object that has a text; others pass as they are."""
    source = iter(objects)
    while batch := list(islice(source, BATCH_LINES)):
        yield from _classify_batch(batch, taxonomy, use_layers=use_layers)


def texts_of(objects: list[dict[str, Any]]) -> pl.DataFrame:
    """frames.TEXTS of a batch; ``unit_id`` is the place in the batch, a missing text is null."""
    texts = [_clean(each.get("text")) for each in objects]
    return pl.DataFrame({"unit_id": [str(i) for i in range(len(texts))], "text": texts}, schema=TEXTS)


def as_line(value: dict[str, Any]) -> str:
    """One line of JSON; characters that are no Unicode text (lone surrogates) stay escaped."""
    line = json.dumps(value, ensure_ascii=False)
    return line if line.isascii() or _is_text(line) else json.dumps(value)


def _classify_batch(batch: list[dict[str, Any]], taxonomy: Taxonomy, *, use_layers: bool) -> Iterator[dict[str, Any]]:
    labels = classify_units(texts_of(batch), taxonomy, ClassifyParams(use_layers=use_layers))
    for given, label in zip(batch, labels.select(_ADDED).iter_rows(named=True), strict=True):
        yield given | label if isinstance(given.get("text"), str) else given


def _clean(text: object) -> str | None:
    if not isinstance(text, str):
        return None
    return text if _is_text(text) else text.encode("utf-8", "replace").decode("utf-8")


def _no_number(name: str) -> float:
    raise json.JSONDecodeError(f"{name} is no JSON number", name, 0)


def _finite(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _no_number(shorten(digits, 20))


def _is_text(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
