"""``rcll tunnels``: what links the banks, tunnels that somebody asks for, and the way through them."""

from typing import Annotated, Any

import typer

from rcll.cli.output import Banks, Json, Schemas, out, print_json, print_table, shorten
from rcll.errors import InputError
from rcll.settings import load_settings

app = typer.Typer(
    invoke_without_command=True,
    help=(
        "Links between units of two banks: counts by pair of banks and the strongest, or one of the commands below.\n\n"
        "Examples: rcll tunnels | rcll tunnels list --bank alice | rcll tunnels show UNIT"
    ),
)

#: Tunnels that the overview shows.
_STRONGEST = 10
#: Banks up to which counts are a table of banks x banks, and lines where they are not.
_MATRIX_BANKS, _MATRIX_PAIRS = 8, 40
_SHOWN_CHARS = 160

Room = Annotated[str | None, typer.Option("--room", help="Only this room.", show_default=False)]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Lines at most.")]


def register(parent: typer.Typer) -> None:
    """Add the group of commands."""
    parent.add_typer(app, name="tunnels")


@app.callback()
def overview(context: typer.Context, bank: Banks = None, schema: Schemas = None, json: Json = False) -> None:
    """Count tunnels by pair of banks and show the strongest."""
    if context.invoked_subcommand is not None:
        if bank or schema or json:
            raise InputError(f"options stand after the command; say rcll tunnels {context.invoked_subcommand} …")
        return
    counts, strongest, waiting = _overview(bank, schema)
    if json:
        print_json({"banks": counts, "strongest": strongest, "waiting": waiting, "pairs": _pairs()})
        return
    _print_matrix(counts)
    _print_tunnels("the strongest", strongest)
    _print_waiting(waiting)
    _say_what_is_allowed()


@app.command(name="list")
def list_(
    bank: Banks = None,
    schema: Schemas = None,
    room: Room = None,
    relationship: Annotated[str | None, typer.Option("--relationship", help="Only this one.")] = None,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List tunnels with both ends: those that somebody asked for, then the strongest.

    Examples: rcll tunnels list --bank alice --room auth | rcll tunnels list --relationship contradicts --json
    """
    from rcll.store.tunnels import list_tunnels
    from rcll.walk.place import open_places, places_of

    found: list[dict[str, Any]] = []
    with open_places(schema or ()) as places:
        for place, banks in places_of(places, bank):
            if place.tenant.migrated:
                with place.database.connect() as conn:
                    listed = list_tunnels(
                        conn, place.tenant, banks=banks, room=room, relationship=relationship, limit=limit
                    )
                found += [{"schema": place.tenant.schema} | tunnel._asdict() for tunnel in listed]
    if json:
        print_json(found)
        return
    _print_tunnels("tunnels", found)
    _say_what_is_allowed()


@app.command()
def add(
    units: Annotated[list[str], typer.Argument(help="Two units, or with --room two banks.", metavar="ONE OTHER")],
    relationship: Annotated[
        str | None,
        typer.Option("--relationship", help="What ONE is to OTHER, e.g. extends; default same_concept."),
    ] = None,
    room: Annotated[str | None, typer.Option("--room", help="Link two banks within this room.")] = None,
    hall: Annotated[str | None, typer.Option("--hall", help="Only units of this hall; needs --room.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Tunnels between two banks at most.")] = 20,
    schema: Schemas = None,
    json: Json = False,
) -> None:
    """Link two units, or the strongest matches of two banks in a room; no run takes these away.

    Examples: rcll tunnels add UNIT UNIT --relationship extends | rcll tunnels add alice bob --room auth
    """
    from rcll.walk.bridge import add_tunnel, bridge_banks, place_of_banks, place_of_units
    from rcll.walk.place import open_places

    if len(units) != 2:  # noqa: PLR2004 - both ends
        raise InputError(f"found {len(units)} ends; expected two units, or two banks and --room")
    if room is None and hall is not None:
        raise InputError("found --hall without --room; expected two banks and a room")
    if room is not None and relationship is not None:
        raise InputError("found --relationship beside --room; between banks it is found with the tunnels")
    one, other = units
    with open_places(schema or ()) as places:
        if room is None:
            place, (source, target) = place_of_units(places, one, other)
            made = add_tunnel(place, source, target, relationship)
        else:
            made = bridge_banks(place_of_banks(places, one, other), one, other, room, hall=hall, limit=limit)
    found = [tunnel._asdict() for tunnel in made.tunnels]
    if json:
        print_json({"n_new": made.n_new, "tunnels": found})
        return
    if found:
        _print_tunnels("as asked for", found)
    out.print(f"{made.n_new} new, {len(found) - made.n_new} there before; no run takes them away")


@app.command()
def remove(
    tunnels: Annotated[list[str], typer.Argument(help="Ids of tunnels, as list --json shows them.")],
    schema: Schemas = None,
    json: Json = False,
) -> None:
    """Take tunnels away, and forget that somebody wanted them.

    Examples: rcll tunnels remove 0b5c…
    """
    from rcll.store.tunnels import match_tunnels
    from rcll.walk.bridge import remove_tunnel
    from rcll.walk.ids import find_id
    from rcll.walk.place import open_places

    with open_places(schema or ()) as places:
        hint = "one that rcll tunnels list --json shows"
        named = [find_id(places, each, match_tunnels, what="tunnel", hint=hint) for each in tunnels]
        gone = [(tunnel_id, remove_tunnel(place, tunnel_id)) for place, tunnel_id in named]
    if json:
        print_json([{"tunnel_id": tunnel_id, "was": was and was._asdict()} for tunnel_id, was in gone])
        return
    out.print(f"{len(gone)} {'tunnel' if len(gone) == 1 else 'tunnels'} removed")
    if any(was and was.method == "auto" for _, was in gone):
        out.print("the next run finds one again that rcll had found by itself, unless its units change")


@app.command()
def show(
    unit: Annotated[str, typer.Argument(help="Id of a unit.")],
    bank: Annotated[
        list[str] | None, typer.Option("--bank", help="Only into this bank; repeatable.", show_default=False)
    ] = None,
    schema: Schemas = None,
    json: Json = False,
) -> None:
    """Show where the tunnels of a unit lead, whichever end it is, and why they are there.

    Examples: rcll tunnels show 0b5c… | rcll tunnels show 0b5c… --bank bob --json
    """
    from rcll.cli.look import find_stored
    from rcll.store.tunnels import tunnel_neighbours
    from rcll.walk.place import open_place

    stored = find_stored(unit, schema)
    with open_place(stored["schema"]) as place, place.database.connect() as conn:
        found = tunnel_neighbours(conn, place.tenant, [stored["unit_id"]], banks=bank, per_unit=100)
    if json:
        print_json({"unit": stored, "neighbours": [far._asdict() | {"path": far.path} for far in found]})
        return
    out.print(f"unit {stored['unit_id']} of bank '{stored['bank_id']}': {shorten(stored['text'], 300)}", markup=False)
    out.print(f"one tunnel away: {len(found)}" if found else "no tunnel leads away from it")
    for far in found:
        arrow, score = "->" if far.direction == "out" else "<-", "" if far.score is None else f" {far.score:.2f}"
        why = _why(far.method, far.evidence)
        out.print(f"{arrow} {far.relationship}{score} ({why})", markup=False, style="bold")
        out.print(f"  {far.bank_id}, unit {far.unit_id}: {shorten(far.text, _SHOWN_CHARS)}", markup=False)


def _overview(
    bank: list[str] | None, schema: list[str] | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Counts by pair of banks, the strongest tunnels, and those asked for that wait for a missing unit."""
    from rcll.store.explicit import list_explicit
    from rcll.store.tunnels import count_tunnels, list_tunnels
    from rcll.walk.place import open_places, places_of

    counts: list[dict[str, Any]] = []
    strongest: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    with open_places(schema or ()) as places:
        for place, banks in places_of(places, bank):
            if not place.tenant.migrated:
                continue
            where = {"schema": place.tenant.schema}
            with place.database.connect() as conn:
                for (one, other), n_tunnels in count_tunnels(conn, place.tenant).items():
                    if banks is None or one in banks or other in banks:
                        counts.append(where | {"bank_a": one, "bank_b": other, "n_tunnels": n_tunnels})
                listed = list_tunnels(conn, place.tenant, banks=banks, limit=_STRONGEST)
                asked = list_explicit(conn, place.tenant, kind="tunnel")
            strongest += [where | tunnel._asdict() for tunnel in listed]
            waiting += [where | {"tunnel_id": each.id, "missing": each.missing} for each in asked if each.missing]
    return counts, strongest, waiting


def _print_matrix(counts: list[dict[str, Any]]) -> None:
    """Banks x banks, or a line for each pair where a table of that width would not be readable."""
    for schema in sorted({row["schema"] for row in counts}):
        of_pair = {(r["bank_a"], r["bank_b"]): r["n_tunnels"] for r in counts if r["schema"] == schema}
        names = sorted({name for pair in of_pair for name in pair})
        title = f"tunnels in schema {schema}: {sum(of_pair.values()):,} between {len(names)} banks"
        if len(names) > _MATRIX_BANKS:
            ranked = sorted(of_pair.items(), key=lambda item: (-item[1], item[0]))
            print_table(title, ("bank", "bank", "tunnels"), [(*pair, n) for pair, n in ranked[:_MATRIX_PAIRS]])
            if len(ranked) > _MATRIX_PAIRS:
                out.print(f"and {len(ranked) - _MATRIX_PAIRS:,} more pairs; see --json")
            continue
        rows = [(one, *(of_pair.get((min(one, two), max(one, two))) for two in names)) for one in names]
        print_table(title, ("", *names), rows)


def _print_tunnels(title: str, found: list[dict[str, Any]]) -> None:
    """Three lines a tunnel: texts of two units stand below each other, not side by side in narrow columns."""
    out.print(f"{title}: {len(found)}" if found else f"{title}: none")
    for tunnel in found:
        score = "" if tunnel["score"] is None else f" {tunnel['score']:.2f}"
        why = _why(tunnel["method"], tunnel["evidence"])
        out.print(f"{tunnel['relationship']}{score} in {tunnel['room']} ({why})", markup=False, style="bold")
        for end in ("source", "target"):
            text = shorten(tunnel[f"{end}_text"], _SHOWN_CHARS)
            out.print(f"  {tunnel[f'{end}_bank_id']}: {text}", markup=False)


def _print_waiting(waiting: list[dict[str, Any]]) -> None:
    for each in waiting[:_STRONGEST]:
        out.print(f"tunnel {each['tunnel_id']} was asked for and waits for unit {each['missing'][0]}", markup=False)
    if len(waiting) > _STRONGEST:
        out.print(f"and {len(waiting) - _STRONGEST} more wait")


def _say_what_is_allowed() -> None:
    if not _pairs():
        out.print('none are found automatically: set tunnel_pairs = [["team-*", "team-*"]] in rcll.toml', markup=False)


def _pairs() -> list[list[str]]:
    return [list(pair) for pair in load_settings().tunnel_pairs]


def _why(method: str, evidence: dict[str, Any] | None) -> str:
    """Who made a tunnel, by which rule, and what both texts say."""
    terms = ", ".join((evidence or {}).get("terms", []))
    rule = (evidence or {}).get("rule", "")
    return "; ".join(part for part in ("asked for" if method == "explicit" else "", rule, terms) if part)
