"""Commands that need no database: classify, eval, taxonomy."""

import sys
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import polars as pl
import typer

from rcll.cli.output import Json, Layers, TaxonomyFile, err, out, print_json, print_table
from rcll.errors import InputError
from rcll.settings import load_settings

if TYPE_CHECKING:
    from rcll.stages.evaluate import Agreement, Evaluation
    from rcll.taxonomy import Taxonomy

JsonLines = Annotated[str, typer.Argument(help="File with one JSON object a line, or - for standard input.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(classify)
    app.command(name="eval")(evaluate)


def classify(file: JsonLines, taxonomy: TaxonomyFile = None, layers: Layers = False) -> None:
    """Add room, hall, layer and the rules that fired to each line that has a "text".

    Examples: rcll classify units.jsonl > labelled.jsonl | cat units.jsonl | rcll classify -
    """
    from rcll.taxonomy import load_taxonomy
    from rcll.walk.lines import as_line, classify_lines, read_lines

    rules = load_taxonomy(taxonomy or load_settings().taxonomy)
    n_lines = n_labelled = 0
    with opened(file) as stream:
        for value in classify_lines(read_lines(stream, file), rules, use_layers=layers):
            sys.stdout.write(as_line(value) + "\n")
            n_lines += 1
            n_labelled += "room_rule" in value
    err.print(f"{n_labelled:,} of {n_lines:,} lines classified", end="")
    err.print(f"; {n_lines - n_labelled:,} have no text" if n_labelled < n_lines else "")


def evaluate(file: JsonLines, taxonomy: TaxonomyFile = None, layers: Layers = False, json: Json = False) -> None:
    """Measure the taxonomy against lines that bear the right room and hall.

    A room or hall that the taxonomy does not know is named, and counts as wrong.

    Examples: rcll eval labelled.jsonl | rcll eval labelled.jsonl --json
    """
    found, unknown = measure(file, taxonomy, layers=layers)
    if json:
        print_json(found.as_dict() | {"unknown": unknown})
        return
    for field in ("room", "hall"):
        _show_agreement(field, getattr(found, field))
    out.print(f"{found.n_units:,} units; room and hall both right: {found.both:.3f}")
    _show_unknown(unknown)
    if found.layer_exact is not None:
        out.print(f"layer right: {found.layer_exact:.3f}; within one: {found.layer_near:.3f}")


def measure(file: str, taxonomy: str | None, *, layers: bool) -> "tuple[Evaluation, dict[str, Counter[str]]]":
    """Labels that the rules give to the lines of a file, against those that stand in it.

    Returns:
        The agreement, and by field the labels of the file that no rule gives.

    Raises:
        InputError: the file cannot be read, or a line lacks text, room or hall.
    """
    from rcll.stages.classify import ClassifyParams, classify_units
    from rcll.stages.evaluate import evaluate_labels
    from rcll.taxonomy import load_taxonomy
    from rcll.walk.lines import read_lines, texts_of

    with opened(file) as stream:
        objects = list(read_lines(stream, file))
    for number, value in enumerate(objects, start=1):
        for field in ("text", "room", "hall"):
            if not isinstance(value.get(field), str):
                raise InputError(f"{file}: object {number} has no '{field}'; expected text, room and hall in each")
    if not objects:
        raise InputError(f"{file} is empty; expected lines with text, room and hall")
    texts = texts_of(objects)
    columns = {field: [value[field] for value in objects] for field in ("room", "hall")}
    if all(isinstance(value.get("layer"), int) for value in objects):
        columns["layer"] = [value["layer"] for value in objects]
    truth = texts.select("unit_id").with_columns(**{name: pl.Series(column) for name, column in columns.items()})
    rules = load_taxonomy(taxonomy or load_settings().taxonomy)
    found = evaluate_labels(classify_units(texts, rules, ClassifyParams(use_layers=layers)), truth)
    return found, _unknown(columns, rules)


def _unknown(truth: Mapping[str, list[Any]], rules: "Taxonomy") -> dict[str, Counter[str]]:
    """Count the labels of the truth that no rule gives."""
    known = {"room": rules.rooms, "hall": rules.halls}
    return {field: Counter(label for label in truth[field] if label not in labels) for field, labels in known.items()}


def _show_unknown(unknown: Mapping[str, Counter[str]]) -> None:
    for field, labels in unknown.items():
        for label, n in labels.most_common():
            err.print(f"{n:,} units bear {field} '{label}', which no rule gives; they count as wrong", markup=False)


def _show_agreement(field: str, agreement: "Agreement") -> None:
    print_table(
        f"{field}: accuracy {agreement.accuracy:.3f}, macro-F1 {agreement.macro_f1:.3f}, "
        f"decided by a rule {agreement.coverage:.3f}",
        agreement.per_label.columns,
        agreement.per_label.with_columns(pl.col(pl.Float64).round(3)).iter_rows(),
    )
    wrong = agreement.confusion.filter(pl.col("truth") != pl.col("predicted")).head(10)
    print_table(f"{field}: most frequent mistakes", wrong.columns, wrong.iter_rows())


@contextmanager
def opened(file: str) -> Generator[IO[bytes]]:
    """Open a file of JSON lines, or standard input for ``-``.

    Raises:
        InputError: the file cannot be read.
    """
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(file).open("rb") as stream:
            yield stream
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}; expected a file of JSON lines, or -") from None
