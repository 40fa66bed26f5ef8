"""Commands for analysts: snapshot, sql, report, doctor, second-opinion."""

from typing import Annotated, Any

import typer

from rcll.cli import sql
from rcll.cli.output import Banks, Json, Schemas, out, print_json, print_table, progress_bars
from rcll.settings import load_settings

#: How many snapshots of a tenant --prune leaves where nothing is said.
KEEP = 14


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(snapshot)
    sql.register(app)


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
            made[-1] |= {"tables": manifest.tables}
    gone = prune_snapshots(target, keep=keep) if prune else []
    if json:
        print_json({"snapshots": made, "pruned": gone})
        return
    for each in made:
        rows = [(name, *counts.values()) for name, counts in each["tables"].items()]
        print_table(f"schema {each['schema']}: {each['n_banks']:,} banks", ("table", "rows", "files", "bytes"), rows)
        out.print(f"snapshot {each['path']}", markup=False, soft_wrap=True)
        out.print(f"  {each['seconds']:.1f} s; no state of the database was held longer than {each['longest_hold']} s")
    if prune:
        out.print(f"pruned: {len(gone)}")
