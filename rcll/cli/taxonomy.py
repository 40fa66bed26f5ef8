"""``rcll taxonomy``: check a file, show the rules, propose words for what no rule knows."""

import tempfile
from collections import Counter
from typing import Annotated

import polars as pl
import typer

from rcll.cli.data import opened
from rcll.cli.output import Json, TaxonomyFile, out, print_json, print_table, shorten
from rcll.errors import InputError
from rcll.settings import load_settings

app = typer.Typer(
    no_args_is_help=True,
    help=(
        "Look at the rules by which units are filed.\n\n"
        "Examples: rcll taxonomy check my.toml | rcll taxonomy show --bank alice | rcll taxonomy suggest --bank alice"
    ),
)

Bank = Annotated[str | None, typer.Option("--bank", help="Count on, or read, this bank.", show_default=False)]


def register(parent: typer.Typer) -> None:
    """Add the group of commands."""
    parent.add_typer(app, name="taxonomy")


@app.command()
def check(
    file: Annotated[str | None, typer.Argument(help="TOML file; without one the shipped rules.")] = None,
    json: Json = False,
) -> None:
    """Say what is wrong with a taxonomy file, with file and line.

    Examples: rcll taxonomy check my.toml | rcll taxonomy check
    """
    from rcll.taxonomy.check import check_taxonomy

    found = check_taxonomy(file)
    if json:
        print_json([{"file": f.file, "line": f.line, "severity": f.severity, "message": f.message} for f in found])
    else:
        for finding in found:
            out.print(f"{finding.severity}: {finding}", markup=False)
    errors = sum(finding.severity == "error" for finding in found)
    if errors:
        raise InputError(
            f"{file or 'the shipped taxonomy'} has {errors} errors; expected none; correct the lines above"
        )
    if not json:
        out.print(f"no errors, {len(found)} warnings")


@app.command()
def show(bank: Bank = None, taxonomy: TaxonomyFile = None, json: Json = False) -> None:
    """Print the rules in order of priority; with --bank also how many of its units each rule filed.

    Examples: rcll taxonomy show | rcll taxonomy show --bank alice --json
    """
    from rcll.taxonomy import load_taxonomy

    rules = load_taxonomy(taxonomy or load_settings().taxonomy).rules
    hits = _hits(bank) if bank else None
    columns = ("dimension", "label", "tier", "language", "rule", "pattern")
    rows = [(r.dimension, r.label, r.tier, r.language, r.id, r.source or r.pattern) for r in rules]
    if hits is not None:
        columns = (*columns, "units")
        rows = [(*row, hits.get(rule.id, 0)) for row, rule in zip(rows, rules, strict=True)]
    if json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    print_table(f"{len(rules):,} rules", columns, [(*row[:5], shorten(row[5], 60), *row[6:]) for row in rows])


@app.command()
def suggest(
    file: Annotated[str | None, typer.Argument(help="JSON lines with a text, or - for standard input.")] = None,
    bank: Bank = None,
    taxonomy: TaxonomyFile = None,
    json: Json = False,
) -> None:
    """Propose words for units that no room rule knows, with how many each would catch and examples.

    Examples: rcll taxonomy suggest units.jsonl | rcll taxonomy suggest --bank alice
    """
    from rcll.stages.classify import classify_units
    from rcll.stages.suggest import suggest_rules
    from rcll.taxonomy import load_taxonomy

    if (file is None) == (bank is None):
        raise InputError("found neither or both of a file and --bank; expected one of them")
    texts = _texts_of_file(file) if file is not None else _texts_of_bank(bank or "")
    labels = classify_units(texts, load_taxonomy(taxonomy or load_settings().taxonomy))
    found = suggest_rules(texts, labels)
    if json:
        print_json(found.to_dicts())
        return
    rows = [[shorten(str(cell), 80) for cell in row] for row in found.iter_rows()]
    print_table("words for units that no room rule knows", found.columns, rows)


def _texts_of_file(file: str) -> pl.DataFrame:
    from rcll.walk.lines import read_lines, texts_of

    with opened(file) as stream:
        return texts_of(list(read_lines(stream, file)))


def _texts_of_bank(bank: str) -> pl.DataFrame:
    from upath import UPath

    from rcll.frames import TEXTS
    from rcll.store.extract import extract_units
    from rcll.store.parts import read_part
    from rcll.walk.place import open_places, places_of

    with open_places() as places, tempfile.TemporaryDirectory() as folder:
        parts = [
            part
            for number, (place, _) in enumerate(places_of(places, [bank]))
            for part in extract_units(
                place.database,
                place.tenant,
                banks=[bank],
                taxonomy_hash="",
                folder=UPath(folder) / str(number),
                all_texts=True,
            )
        ]
        frames = [read_part(part).select(TEXTS.names()) for part in parts]
        return pl.concat([pl.DataFrame(schema=TEXTS), *frames])


def _hits(bank: str) -> dict[str, int]:
    from rcll.store.status import count_rule_hits
    from rcll.walk.place import open_places, places_of

    hits: Counter[str] = Counter()
    with open_places() as places:
        for place, _ in places_of(places, [bank]):
            if place.tenant.migrated:
                with place.database.connect() as conn:
                    hits.update(count_rule_hits(conn, place.tenant, bank))
    return dict(hits)
