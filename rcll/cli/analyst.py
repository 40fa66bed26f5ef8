"""Commands for analysts: snapshot, sql, report, doctor."""

import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rcll.cli import opinion, sql
from rcll.cli.data import measure
from rcll.cli.output import (
    Banks,
    Json,
    Schemas,
    TaxonomyFile,
    err,
    out,
    print_json,
    print_table,
    progress_bars,
    use_rules,
)
from rcll.errors import InputError
from rcll.settings import load_settings

if TYPE_CHECKING:
    from rcll.stages.evaluate import Evaluation

#: How many snapshots of a tenant --prune leaves where nothing is said.
KEEP = 14


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(snapshot)
    app.command()(doctor)
    app.command()(report)
    sql.register(app)
    opinion.register(app)


def snapshot(
    folder: Annotated[
        str | None,
        typer.Argument(metavar="DIR", help="Folder, or URL of a store (s3://…); default storage/snapshots."),
    ] = None,
    bank: Banks = None,
    schema: Schemas = None,
    no_text: Annotated[bool, typer.Option("--no-text", help="Leave texts, titles and summaries out.")] = False,
    no_embeddings: Annotated[bool, typer.Option("--no-embeddings", help="Leave vectors out.")] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Afterwards remove the oldest snapshots beyond --keep, and torn ones.")
    ] = False,
    keep: Annotated[int, typer.Option("--keep", min=1, help="Snapshots of a tenant that --prune leaves.")] = KEEP,
    json: Json = False,
) -> None:
    """Write every table that analysts need to Parquet; the database is only read.

    A snapshot is consistent bank by bank, and is seen by readers when it is whole, not before.

    Examples: rcll snapshot /data/palace | rcll snapshot --no-text --prune --keep 30 | rcll sql "FROM rooms_by_halls"
    """
    from rcll.analyst.snapshot import SnapshotOptions, prune_snapshots, take_snapshot
    from rcll.walk.place import open_places, places_of

    target = folder or load_settings().snapshots
    made: list[dict[str, Any]] = []
    with progress_bars(), open_places(schema or ()) as places:
        for place, banks in places_of(places, bank):
            options = SnapshotOptions(banks, texts=not no_text, embeddings=not no_embeddings)
            where, manifest = take_snapshot(place.database, place.tenant, target, options)
            made.append({"path": where, "schema": manifest.schema, "seconds": manifest.seconds})
            made[-1] |= {"longest_hold": manifest.longest_hold, "n_banks": len(manifest.banks)}
            made[-1] |= {"tables": manifest.tables, "migrated": manifest.migrated}
    gone = prune_snapshots(target, keep=keep) if prune else []
    if json:
        print_json({"snapshots": made, "pruned": gone})
        return
    for each in made:
        rows = [(name, *counts.values()) for name, counts in each["tables"].items()]
        print_table(f"schema {each['schema']}: {each['n_banks']:,} banks", ("table", "rows", "files", "bytes"), rows)
        out.print(f"snapshot {each['path']}", markup=False, soft_wrap=True)
        if not each["migrated"]:
            out.print("  migrations are pending, so tables may be missing; run rcll migrate first for all of them")
        out.print(f"  {each['seconds']:.1f} s; no state of the database was held longer than {each['longest_hold']} s")
    if prune:
        out.print(f"pruned: {len(gone)}")


def doctor(schema: Schemas = None, taxonomy: TaxonomyFile = None, json: Json = False) -> None:
    """Examine every tenant: what is broken, what to look at, and what to do. Nothing is written.

    Exit code 1 where something is broken.

    Examples: rcll doctor | rcll doctor --schema public --json
    """
    from rcll.analyst.doctor import examine
    from rcll.store.doctor import read_facts
    from rcll.taxonomy import load_taxonomy
    from rcll.walk.place import open_places

    use_rules(taxonomy, layers=False)
    rules = load_taxonomy(load_settings().taxonomy)
    with err.status("examining"), open_places(schema or ()) as places:
        examined = [read_facts(place.database, place.tenant) for place in places]
    found = [ailment for facts in examined for ailment in examine(facts, rooms=rules.rooms, halls=rules.halls)]
    if json:
        print_json([asdict(ailment) for ailment in found])
    else:
        rows = [(each.severity, each.schema, each.message, each.todo) for each in found]
        print_table("findings", ("severity", "schema", "finding", "what to do"), rows)
    if any(ailment.severity == "broken" for ailment in found):
        raise typer.Exit(1)


def report(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.html", help="Where the page is written; replaced if it exists.")
    ],
    folder: sql.From = None,
    schema: sql.Schema = None,
    labelled: Annotated[
        str | None, typer.Option("--labelled", metavar="FILE.jsonl", help="Lines with text, room and hall to judge by.")
    ] = None,
    json: Json = False,
) -> None:
    """Make one page that shows the palace; it holds all it needs and asks nothing of any network.

    Without --from the banks are looked at afresh; with it the newest snapshot there is shown, and what drifted since
    the one before.

    Examples: rcll report palace.html | rcll report palace.html --from /data/palace --labelled truth.jsonl
    """
    from rcll.analyst.report import write_report

    evaluation = measure(labelled, None, layers=False)[0] if labelled else None
    with err.status("drawing"), fresh_or_named(folder, schema) as where:
        page = draw_report(where, schema, evaluation)
        write_report(page, file)
    if json:
        print_json({"path": str(file), "bytes": len(page.encode("utf-8", "replace"))})
        return
    out.print(f"wrote {file} ({len(page) / 1e6:.1f} MB); open it in any browser", markup=False, soft_wrap=True)


def draw_report(where: str, schema: str | None, evaluation: "Evaluation | None" = None) -> str:
    """The page about the newest snapshot of a folder or store."""
    from rcll.analyst.duck import open_snapshots
    from rcll.analyst.report import render_report

    settings = load_settings()
    with open_snapshots(where, schema=schema) as connection:
        return render_report(
            connection,
            schema=schema,
            threshold=settings.closet_threshold,
            cache=settings.home / "cache",
            evaluation=evaluation,
        )


@contextmanager
def fresh_or_named(
    folder: str | None, schema: str | None, *, banks: Sequence[str] | None = None, embeddings: bool = False
) -> Generator[str]:
    """The folder that was named, or one with a fresh snapshot that goes afterwards.

    Raises:
        InputError: the database holds several tenants and none was named.
    """
    from rcll.analyst.snapshot import SnapshotOptions, take_snapshot
    from rcll.walk.place import open_places, places_of

    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="rcll-fresh-") as fresh, open_places([schema] if schema else ()) as places:
        if len(places) > 1:
            names = ", ".join(place.tenant.schema for place in places)
            raise InputError(f"the database holds schemas {names}; expected one; say --schema")
        for place, names in places_of(places, banks):
            take_snapshot(place.database, place.tenant, fresh, SnapshotOptions(names, embeddings=embeddings))
        yield fresh
