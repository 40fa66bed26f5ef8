"""Commands that only look: status, runs, explain, grants."""

from typing import Annotated, Any

import typer

from rcll.cli.output import Json, Schemas, TaxonomyFile, out, print_json, print_table, shorten, use_rules
from rcll.errors import InputError
from rcll.settings import load_settings

Limit = Annotated[int, typer.Option("--limit", min=1, help="Rows at most.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (status, runs, explain, grants):
        app.command()(command)


def status(schema: Schemas = None, json: Json = False) -> None:
    """Show how every bank stands.

    Examples: rcll status | rcll status --json
    """
    from rcll.store.ledger import list_runs
    from rcll.store.migrate import pending
    from rcll.store.status import bank_status
    from rcll.walk.place import open_places

    found: list[dict[str, Any]] = []
    with open_places(schema or ()) as places:
        for place in places:
            with place.database.connect() as conn:
                last = list_runs(conn, place.tenant, limit=1) if place.tenant.has("runs") else []
                found.append(
                    {
                        "schema": place.tenant.schema,
                        "kind": place.tenant.kind,
                        "pending": [migration.name for migration in pending(conn, place.tenant)],
                        "banks": [row._asdict() for row in bank_status(conn, place.tenant)],
                        "last_run": last[0]._asdict() | {"summary": None} if last else None,
                    }
                )
    if json:
        print_json(found)
        return
    for tenant in found:
        columns = ("bank", "units", "filed", "explicit", "general", "rooms", "closets", "tunnels")
        rows = [tuple(row.values()) for row in tenant["banks"]]
        print_table(f"schema {tenant['schema']} ({tenant['kind']})", columns, rows)
        if names := tenant["pending"]:
            out.print(f"run rcll migrate ({len(names)} pending: {', '.join(names)})", soft_wrap=True)
        if run := tenant["last_run"]:
            out.print(
                f"last run: {run['run_id'][:8]} {run['kind']} {run['status']}, {run['started_at']:%Y-%m-%d %H:%M}"
            )
        if not rows:
            out.print(f"no units yet; {_where_units_are()}", soft_wrap=True)


def _where_units_are() -> str:
    """What to type where a database is empty: the demo's may lie beside it on the embedded server."""
    from rcll.cli.demo import DATABASE
    from rcll.store.embedded import EmbeddedServer

    settings = load_settings()
    if settings.database_url is None and settings.database != DATABASE:
        with EmbeddedServer(settings.home) as server:
            if server.has_database(DATABASE):
                return f"this is database {settings.database}; for the demo's say RCLL_DATABASE={DATABASE} rcll status"
    return "point RCLL_DATABASE_URL at a database with memories, or try rcll demo"


def runs(
    run: Annotated[str | None, typer.Argument(help="Only this run, wholly.", show_default=False)] = None,
    schema: Schemas = None,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """List runs, newest first, or show one with all that it did.

    A run is dead if it was killed: what it wrote stays, and the next run finishes its work.

    Examples: rcll runs --limit 5 | rcll runs 5f0c
    """
    from rcll.store.ledger import list_runs, match_runs
    from rcll.store.undo import find_run
    from rcll.walk.ids import find_id
    from rcll.walk.place import open_places

    found: list[dict[str, Any]] = []
    with open_places(schema or ()) as places:
        if run is not None:
            place, run_id = find_id(places, run, match_runs, what="run", hint="one of those that rcll runs lists")
            with place.database.connect() as conn:
                one = find_run(conn, place.tenant, run_id)
            print_json({"schema": place.tenant.schema} | (one._asdict() if one else {}))
            return
        for place in places:
            if not place.tenant.has("runs"):
                continue
            with place.database.connect() as conn:
                listed = list_runs(conn, place.tenant, limit=limit)
            found += [{"schema": place.tenant.schema} | each._asdict() for each in listed]
    if json:
        print_json(found)
        return
    columns = ("run", "schema", "kind", "status", "started", "written")
    rows = [
        (r["run_id"][:8], r["schema"], r["kind"], r["status"], f"{r['started_at']:%Y-%m-%d %H:%M:%S}", _written(r))
        for r in found
    ]
    if found:
        print_table("runs", columns, rows)
    else:
        out.print("no run yet; rcll plan shows what one would do")


def _written(run: dict[str, Any]) -> int | None:
    return ((run["summary"] or {}).get("loaded") or {}).get("n_written")


def explain(
    unit: Annotated[str | None, typer.Argument(help="Id of a unit, or its first digits.", show_default=False)] = None,
    text: Annotated[str | None, typer.Option("--text", help="Any text instead of a unit.")] = None,
    schema: Schemas = None,
    taxonomy: TaxonomyFile = None,
    json: Json = False,
) -> None:
    """Say why a unit, or any text, is filed where it is.

    Examples: rcll explain 0b5c… | rcll explain --text "Never delete the production database"
    """
    from rcll.stages.explain import explain_text
    from rcll.taxonomy import load_taxonomy

    if (unit is None) == (text is None):
        raise InputError("found neither or both of a unit and --text; expected one of them")
    use_rules(taxonomy, layers=False)
    stored = None if unit is None else find_stored(unit, schema)
    body = text if stored is None else stored["text"]
    explanation = explain_text(body or "", load_taxonomy(load_settings().taxonomy))
    if json:
        print_json({"unit": stored, "explanation": explanation.as_dict()})
        return
    if stored:
        _print_stored(stored)
    for line in explanation.lines():
        out.print(line, markup=False)


def find_stored(unit: str, schemas: list[str] | None) -> dict[str, Any]:
    """A unit with its label, what the ledger knows of it, and its schema; the first digits of its id are enough.

    Raises:
        InputError: no unit id, or no unit of a migrated bank.
    """
    from rcll.store.ledger import find_unit, match_units
    from rcll.walk.ids import find_id
    from rcll.walk.place import open_places

    with open_places(schemas or ()) as places:
        place, unit_id = find_id(places, unit, match_units, what="unit", hint="the id of a unit of a migrated bank")
        with place.database.connect() as conn:
            found = find_unit(conn, place.tenant, unit_id)
    if found is None:  # deleted between two looks
        raise InputError(f"no unit '{unit}' any more; expected the id of a unit of a migrated bank")
    return found._asdict() | {"schema": place.tenant.schema}


def _print_stored(stored: dict[str, Any]) -> None:
    out.print(f"unit {stored['unit_id']} of bank '{stored['bank_id']}': {shorten(stored['text'], 300)}", markup=False)
    for field in ("room", "hall", "layer"):
        source = stored[f"{field}_source"] or "not filed yet"
        if stored["is_due"] and source != "explicit":
            source = "handed back to the rules; the next run files it"
        rule = f", rule {stored[f'{field}_rule']}" if stored[f"{field}_rule"] else ""
        out.print(f"  {field}: {stored[field]} ({source}{rule})", markup=False)
    if stored["is_held"]:
        out.print("  held since an undo: the next run leaves it alone until its text or the rules change")
    out.print("what the rules say of it now:")


def grants(
    role: Annotated[str, typer.Argument(help="Role that shall run rcll; it need not exist yet.")],
    schema: Schemas = None,
) -> None:
    """Print the least rights that a role needs, as SQL; nothing is executed.

    The tables' owner runs rcll migrate first, then what this prints; from then on the role runs everything else.

    Examples: rcll grants rcll_night | rcll grants rcll_night | psql "$OWNER_URL"
    """
    from rcll.store.grants import grants as wanted
    from rcll.walk.place import open_places

    with open_places(schema or ()) as places:
        for place in places:
            with place.database.connect() as conn:
                typer.echo(wanted(conn, place.tenant, role))
