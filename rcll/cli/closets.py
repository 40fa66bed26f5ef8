"""``rcll closets``: what was condensed, and closets that somebody asks for, renews or drops."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rcll.cli.output import PARTIAL, Banks, Json, Schemas, out, print_json, print_table, shorten
from rcll.errors import InputError

if TYPE_CHECKING:
    from rcll.store.closets import Closet as StoredCloset
    from rcll.walk.asked import Renewed
    from rcll.walk.place import Place

app = typer.Typer(
    invoke_without_command=True,
    help=(
        "Closets: summaries of groups of units, with their sources; without a command they are listed. "
        "rcll reorganize makes them; with --archive-sources it moves their sources to layer 3, so that recall shows "
        "the closet in their place (RCLL_ARCHIVE_SOURCES for every command, create and refresh among them).\n\n"
        "Examples: rcll closets --bank alice | rcll closets show 7d1f… | "
        "rcll closets create --bank alice 0b5c… 1c2d… 4e5f… | rcll closets refresh | rcll closets drop 7d1f…"
    ),
)

Room = Annotated[str | None, typer.Option("--room", help="Only this room.", show_default=False)]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Rows at most.")]
Closet = Annotated[str, typer.Argument(help="Id of a closet, or its first digits.", show_default=False)]


def register(parent: typer.Typer) -> None:
    """Add the group of commands."""
    parent.add_typer(app, name="closets")


@app.callback()
def listing(
    context: typer.Context,
    bank: Banks = None,
    schema: Schemas = None,
    room: Room = None,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List closets where no command follows."""
    if context.invoked_subcommand is None:
        list_(bank, schema, room, limit, json)


@app.command("list")
def list_(bank: Banks = None, schema: Schemas = None, room: Room = None, limit: Limit = 50, json: Json = False) -> None:
    """List closets with their freshness, title, summary and sources.

    Only a fresh closet is shown in recall; stale and failed ones wait for the next run, or for rcll closets refresh.

    Examples: rcll closets list --bank alice --room deployment
    """
    from rcll.store.closets import list_closets
    from rcll.walk.place import open_places, places_of

    found: list[dict[str, Any]] = []
    with open_places(schema or ()) as places:
        for place, banks in places_of(places, bank):
            if place.tenant.migrated:
                with place.database.connect() as conn:
                    listed = list_closets(conn, place.tenant, banks=banks, room=room, limit=limit)
                found += [{"schema": place.tenant.schema} | closet._asdict() for closet in listed]
    if json:
        print_json(found)
        return
    columns = ("id", "bank", "room", "hall", "status", "read", "title", "summary", "by")
    rows = [
        (
            closet["closet_id"][:8],
            *(closet[name] for name in ("bank_id", "room", "hall", "status")),
            f"{closet['n_read']} of {closet['n_sources']}",
            closet["title"],
            shorten(closet["summary"], 160),
            closet["model"] + (", asked for" if closet["is_explicit"] else ""),
        )
        for closet in found
    ]
    print_table("closets", columns, rows)


@app.command()
def show(closet: Closet, schema: Schemas = None, json: Json = False) -> None:
    """Show one closet with its summary and sources.

    Examples: rcll closets show 7d1f0c2a
    """
    from rcll.store.extract import extract_members
    from rcll.walk.asked import show_closet
    from rcll.walk.place import open_places

    with open_places(schema or ()) as places:
        place, closet_id = _find(places, closet)
        found = show_closet(place, closet_id)
        with place.database.connect() as conn:
            members, _ = extract_members(conn, place.tenant, found.unit_ids)
    texts = dict(zip(members["unit_id"], members["text"], strict=True))
    sources = [{"unit_id": unit, "text": texts.get(unit)} for unit in found.unit_ids]
    if json:
        print_json(found._asdict() | {"sources": sources})
        return
    _print_closet(found)
    for source in sources:
        text = "is gone" if source["text"] is None else shorten(source["text"], 300)
        out.print(f"  {source['unit_id']}  {text}", markup=False)


@app.command()
def create(
    units: Annotated[list[str], typer.Argument(help="Ids of the units to condense.", show_default=False)],
    bank: Annotated[str, typer.Option("--bank", help="Bank that holds them.", show_default=False)],
    room: Annotated[str | None, typer.Option("--room", help="Where it is filed; default: as most units.")] = None,
    hall: Annotated[str | None, typer.Option("--hall", help="Likewise.")] = None,
    schema: Schemas = None,
    json: Json = False,
) -> None:
    """Make a closet of these units. No run regroups or drops it; runs renew it when a source changes.

    With RCLL_SUMMARY_MODEL set the model writes it; the call counts towards RCLL_MAX_CALLS.

    Examples: rcll closets create --bank alice 0b5c… 1c2d… 4e5f… --hall warning
    """
    from rcll.store.ledger import match_units
    from rcll.walk.asked import create_closet
    from rcll.walk.ids import full_ids
    from rcll.walk.place import open_places, places_of

    with open_places(schema or ()) as places:
        chosen = places_of(places, [bank])
        if len(chosen) != 1:
            raise InputError(f"bank '{bank}' stands in {len(chosen)} schemas; expected one; say --schema")
        place = chosen[0][0]
        ids = full_ids([place], units, match_units, what="unit", hint=f"units of bank '{bank}'")
        made = create_closet(place, bank, ids, room=room, hall=hall)
    if json:
        print_json(made._asdict())
    else:
        _print_closet(made)


@app.command()
def refresh(
    closets: Annotated[list[str] | None, typer.Argument(help="Ids; without any all that are not fresh.")] = None,
    bank: Banks = None,
    schema: Schemas = None,
    json: Json = False,
) -> None:
    """Write closets anew from their sources as they read now.

    Examples: rcll closets refresh | rcll closets refresh 7d1f… --json
    """
    from rcll.walk.asked import refresh_closets
    from rcll.walk.place import open_places, places_of

    if closets and bank:
        raise InputError("found ids beside --bank; expected one of them")
    results: list[dict[str, Any]] = []
    with open_places(schema or ()) as places:
        if closets:
            found = [_find(places, closet) for closet in closets]
            for place in places:
                ids = [closet_id for where, closet_id in found if where is place]
                if ids:
                    results.append(_as_result(place.tenant.schema, refresh_closets(place, closet_ids=ids)))
        else:
            for place, banks in places_of(places, bank):
                if place.tenant.migrated:
                    results.append(_as_result(place.tenant.schema, refresh_closets(place, banks=banks)))
    if json:
        print_json(results)
    else:
        for result in results:
            _print_result(result)
    if any(result["failures"] for result in results):
        raise typer.Exit(PARTIAL)


@app.command()
def drop(closet: Closet, schema: Schemas = None, json: Json = False) -> None:
    """Drop a closet for good: no run condenses its units again as long as they read as they do.

    Units that rested in layer 3 because of it get their layer back. To take it back: rcll closets create.

    Examples: rcll closets drop 7d1f…
    """
    from rcll.walk.asked import drop_closet
    from rcll.walk.place import open_places

    with open_places(schema or ()) as places:
        place, closet_id = _find(places, closet)
        gone = drop_closet(place, closet_id)
    if json:
        print_json(gone._asdict())
    else:
        out.print(f"dropped closet {gone.closet_id} ({gone.title}); its {gone.n_sources} units stay", markup=False)


def _find(places: Sequence["Place"], closet: str) -> tuple["Place", str]:
    """The tenant and the closet whose id begins so.

    Raises:
        InputError: there is none, or more than one.
    """
    from rcll.store.closets import match_closets
    from rcll.walk.ids import find_id

    return find_id(places, closet, match_closets, what="closet", hint="one that rcll closets lists")


def _print_closet(closet: "StoredCloset") -> None:
    where = f"{closet.bank_id} / {closet.room} / {closet.hall}"
    asked = ", asked for" if closet.is_explicit else ""
    out.print(f"{closet.title}\n  {where}; {closet.status}, by {closet.model}{asked}", markup=False)
    out.print(f"  closet {closet.closet_id}, {closet.n_read} of {closet.n_sources} sources read", markup=False)
    out.print(f"\n{closet.summary}\n", markup=False)


def _as_result(schema: str, renewed: "Renewed") -> dict[str, Any]:
    return {"schema": schema} | asdict(renewed)


def _print_result(result: dict[str, Any]) -> None:
    out.print(
        f"schema {result['schema']}: {result['n_written']} closets written anew, {result['n_dropped']} dropped, "
        f"{result['n_waiting']} wait for a source, {len(result['failures'])} failed; "
        f"{result['spent']['n_calls']} model calls, {result['spent']['n_tokens']:,} tokens",
        markup=False,
    )
    for reason in result["failures"][:5]:
        out.print(f"  closet failed: {reason}", markup=False)
