"""Commands by which people set labels."""

import difflib
from typing import Annotated

import typer

from rcll.cli.output import PARTIAL, Json, Schemas, err, out, print_json
from rcll.errors import InputError
from rcll.settings import load_settings


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(label)


def label(
    units: Annotated[list[str], typer.Argument(help="Ids of units, or their first digits.")],
    room: Annotated[str | None, typer.Option("--room", help="Room to set.")] = None,
    hall: Annotated[str | None, typer.Option("--hall", help="Hall to set.")] = None,
    layer: Annotated[int | None, typer.Option("--layer", min=0, max=3, help="Layer to set.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Hand the units back to the rules.")] = False,
    schema: Schemas = None,
    json: Json = False,
) -> None:
    """Set labels that no run will ever change, or hand them back to the rules.

    Examples: rcll label 0b5c… --room auth --layer 0 | rcll label 0b5c… --clear
    """
    from rcll.store.ledger import clear_explicit, match_units, set_explicit
    from rcll.walk.ids import full_ids
    from rcll.walk.place import open_places

    named = [value for value in (room, hall, layer) if value is not None]
    if bool(named) == clear:
        raise InputError("found no label to set, or one beside --clear; expected --room, --hall, --layer or --clear")
    done: list[str] = []
    with open_places(schema or ()) as places:
        ids = full_ids(places, units, match_units, what="unit", hint="units of a migrated bank")
        for place in places:
            if place.tenant.migrated:
                with place.database.connect() as conn:
                    if clear:
                        done += clear_explicit(conn, place.tenant, ids)
                    else:
                        done += set_explicit(conn, place.tenant, ids, room=room, hall=hall, layer=layer)
    missing = sorted(set(ids) - set(done))
    if done:
        _warn_of_unknown(room, hall)
    if json:
        print_json({"done": done, "missing": missing})
    else:
        what = "handed back to the rules; the next run files them" if clear else "labelled"
        out.print(f"{len(done)} {'unit' if len(done) == 1 else 'units'} {what}")
    if missing:
        found = f"no unit '{missing[0]}'{_more(missing)}; expected units of a migrated bank; see rcll migrate --check"
        if not done:
            raise InputError(found)
        err.print(f"error: {found}", markup=False, style="red")
        raise typer.Exit(PARTIAL)


def _warn_of_unknown(room: str | None, hall: str | None) -> None:
    """A label outside the taxonomy is somebody's right, and more often a slip."""
    from rcll.taxonomy import load_taxonomy

    rules = load_taxonomy(load_settings().taxonomy)
    for field, label, known in (("room", room, rules.rooms), ("hall", hall, rules.halls)):
        if label is not None and label not in known:
            near = difflib.get_close_matches(label.lower(), known, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            err.print(f"warning: no rule names {field} '{label}'{hint}", markup=False, style="yellow")


def _more(missing: list[str]) -> str:
    return f" and {len(missing) - 1} more" if len(missing) > 1 else ""
