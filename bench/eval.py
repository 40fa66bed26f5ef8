"""Quality of a taxonomy on labelled lines: ``python -m bench.eval FILE.jsonl [--taxonomy T.toml] [--wrong N]``.

Each line holds text, room and hall, and may hold layer, id and kind, by which it is then shown too.
"""

import argparse
from pathlib import Path

import polars as pl

from rcll.stages.classify import ClassifyParams, classify_units
from rcll.stages.evaluate import Agreement, Evaluation, evaluate_labels
from rcll.taxonomy import load_taxonomy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--taxonomy")
    parser.add_argument("--wrong", type=int, default=0, help="show so many wrong units")
    parser.add_argument("--only", choices=("room", "hall", "layer"), help="wrong in this dimension only")
    parser.add_argument("--per-label", action="store_true", help="precision, recall and confusion by label")
    args = parser.parse_args()
    taxonomy = load_taxonomy(args.taxonomy)
    print(f"{len(taxonomy.rules)} rules, hash {taxonomy.hash[:8]}")
    for path in args.files:
        truth = pl.read_ndjson(path, infer_schema_length=None)
        if "id" not in truth.columns:
            truth = truth.with_row_index("id")
        truth = truth.with_columns(pl.col("id").cast(pl.String).alias("unit_id"))
        labels = classify_units(truth.select("unit_id", "text"), taxonomy, ClassifyParams(use_layers=True))
        show(path.name, evaluate_labels(labels, truth), per_label=args.per_label)
        for kind in truth["kind"].unique().sort() if "kind" in truth.columns else ():
            part = truth.filter(pl.col("kind") == kind)
            show_line(f"{path.name} {kind}", evaluate_labels(labels.join(part, on="unit_id", how="semi"), part))
        if args.wrong:
            show_wrong(labels, truth, args.wrong, args.only)


def show_line(name: str, result: Evaluation) -> None:
    layer = "-" if result.layer_exact is None else f"{result.layer_exact:.3f} (near {result.layer_near:.3f})"
    print(
        f"\n{name}: n={result.n_units}  room {result.room.accuracy:.3f} (F1 {result.room.macro_f1:.3f})  "
        f"hall {result.hall.accuracy:.3f} (F1 {result.hall.macro_f1:.3f})  both {result.both:.3f}  layer {layer}"
    )


def show(name: str, result: Evaluation, *, per_label: bool) -> None:
    show_line(name, result)
    with pl.Config(tbl_rows=200, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True):
        print(result.languages)
        for dimension, agreement in (("room", result.room), ("hall", result.hall)):
            show_agreement(dimension, agreement, per_label=per_label)


def show_agreement(dimension: str, agreement: Agreement, *, per_label: bool) -> None:
    print(f"{dimension}: coverage {agreement.coverage:.3f}", agreement.per_tier)
    if per_label:
        print(agreement.per_label)
        print(agreement.confusion.filter(pl.col("truth") != pl.col("predicted")))


def show_wrong(labels: pl.DataFrame, truth: pl.DataFrame, n: int, only: str | None) -> None:
    keys = [only] if only else ["room", "hall"]
    joined = truth.join(labels, on="unit_id", suffix="_found", maintain_order="left")
    wrong = joined.filter(pl.any_horizontal(pl.col(key) != pl.col(f"{key}_found") for key in keys))
    for row in wrong.head(n).iter_rows(named=True):
        said = "  ".join(
            f"{key} {row[key]} <- {row[f'{key}_found']} [{row[f'{key}_rule']}]"
            for key in keys
            if row[key] != row[f"{key}_found"]
        )
        print(f"- {row['unit_id']} ({row['language']}) {said}\n    {row['text'][:400]}")


if __name__ == "__main__":
    main()
