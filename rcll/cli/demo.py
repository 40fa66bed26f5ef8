"""``rcll demo``: the whole walk on a fictional company's banks."""

import json as jsonlib
import os
import time
from shlex import quote
from typing import Any

import typer

from rcll.cli.output import Json, out, print_json, print_table, shorten
from rcll.cli.walk import run_flow, show_summary
from rcll.frames import DEFAULT_ROOM
from rcll.settings import load_settings

DATABASE = "rcll_demo"
SCHEMA = "public"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(json: Json = False) -> None:
    """Make three legacy banks on the embedded server, reorganise them, and show what came of it.

    The demo has a database of its own and starts afresh each time; nothing else is touched.

    Examples: rcll demo | RCLL_HOME=/tmp/rcll rcll demo
    """
    from rcll.demo import DEMO_TUNNEL_PAIRS
    from rcll.store.embedded import EmbeddedServer

    os.environ["RCLL_DATABASE_URL"] = ""  # above rcll.toml too: the demo never works on the user's own
    os.environ["RCLL_DATABASE"] = DATABASE
    os.environ.setdefault("RCLL_TUNNEL_PAIRS", jsonlib.dumps(DEMO_TUNNEL_PAIRS))
    watch = _Watch()
    with EmbeddedServer(load_settings().home) as server:
        watch.lap("start")
        _seed(server)
        watch.lap("seed")
        (summary,) = run_flow(banks=None, schemas=None, only=None, dry_run=False)
        watch.seconds |= summary["seconds"]
        watch.lap("Prefect")
        found = _look() | {"report": _report()}
        watch.lap("report")
    watch.lap("stop")
    summary["seconds"] = watch.seconds
    total = round(sum(watch.seconds.values()), 1)
    if json:
        print_json(summary | found | {"seconds_in_all": total})
        return
    show_summary(summary)
    _show_found(found)
    out.print(f"\nthe palace on one page: {found['report']}", markup=False, soft_wrap=True)
    out.print(f"\nin all {total:.0f} s")
    _show_next()


class _Watch:
    """Seconds of each part of the demo, so that they add up to the whole."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self.seconds: dict[str, float] = {}

    def lap(self, part: str) -> None:
        """Give what no other part has taken since the start to this one."""
        spent = time.monotonic() - self._started - sum(self.seconds.values())
        self.seconds[part] = round(spent, 2)


def _seed(server: Any) -> None:
    """Make the legacy banks and let somebody set a few labels."""
    from rcll.demo import explicit_examples, seed_legacy
    from rcll.store.connect import Database
    from rcll.store.ledger import set_explicit
    from rcll.store.migrate import migrate
    from rcll.walk.place import open_place

    server.recreate_database(DATABASE)
    seed_legacy(Database(server.url(DATABASE), is_embedded=True), schema=SCHEMA)
    with open_place(SCHEMA) as place:
        migrate(place.database, place.tenant)
    with open_place(SCHEMA) as place, place.database.connect() as conn:
        for unit_id, room, hall, layer in explicit_examples():
            set_explicit(conn, place.tenant, [unit_id], room=room, hall=hall, layer=layer)


def _look() -> dict[str, Any]:
    from rcll.store.closets import list_closets
    from rcll.store.tunnels import list_tunnels
    from rcll.walk.place import open_place

    with open_place(SCHEMA) as place, place.database.connect() as conn:
        closets = list_closets(conn, place.tenant, limit=1000)
        tunnels = list_tunnels(conn, place.tenant, limit=1000)
    # One of each room tells more than the five largest; the fallback room is small talk.
    by_room = {closet.room: closet._asdict() for closet in reversed(closets) if closet.room != DEFAULT_ROOM}
    telling = {tunnel.room: tunnel._asdict() for tunnel in reversed(tunnels) if tunnel.relationship != "duplicate"}
    return {"some_closets": list(by_room.values())[:5], "some_tunnels": list(telling.values())[:5]}


def _report() -> str:
    """Take a snapshot, so that rcll sql has something to ask, and draw the page; returns where it lies."""
    from rcll.analyst.report import write_report
    from rcll.analyst.snapshot import take_snapshot
    from rcll.cli.analyst import draw_report
    from rcll.walk.place import open_place

    settings = load_settings()
    with open_place(SCHEMA) as place:
        where, _ = take_snapshot(place.database, place.tenant, settings.snapshots)
    file = settings.home / "report.html"
    write_report(draw_report(where, None), file)
    return str(file)


def _show_found(found: dict[str, Any]) -> None:
    out.print("\n[bold]some closets[/bold]")
    for closet in found["some_closets"]:
        where = f"{closet['bank_id']} / {closet['room']} / {closet['hall']}"
        out.print(f"\n{closet['title']} ({where}; {closet['n_sources']} units, {closet['model']})", markup=False)
        out.print(f"  {shorten(closet['summary'], 400)}", markup=False)
        out.print(f"  sources: {', '.join(unit[:8] for unit in closet['unit_ids'][:8])} …", markup=False, style="dim")
    ends = [
        (tunnel["room"], tunnel["relationship"], f"{tunnel[f'{end}_bank_id']}", shorten(tunnel[f"{end}_text"], 120))
        for tunnel in found["some_tunnels"]
        for end in ("source", "target")
    ]
    out.print()
    print_table("some tunnels, both ends", ("room", "relationship", "bank", "unit"), ends)


def _show_next() -> None:
    out.print("\n[bold]try next[/bold]")
    where = f"RCLL_DATABASE={DATABASE} "
    allowed = f"RCLL_TUNNEL_PAIRS={quote(os.environ['RCLL_TUNNEL_PAIRS'])} "  # without it no tunnel is allowed to stay
    for command in ("rcll status", "rcll closets --limit 5", "rcll tunnels"):
        out.print(f"  {where}{command}", markup=False, soft_wrap=True)
    out.print(f"  {where}{allowed}rcll reorganize   # writes nothing", markup=False, soft_wrap=True)
    for command in (
        'rcll explain --text "Never delete the production database without a backup"',
        "rcll sql silos   # asks the snapshot that the demo has taken",
        "RCLL_DATABASE_URL=postgresql://… rcll plan   # your own banks: looks, and writes nothing",
    ):
        out.print(f"  {command}", markup=False, soft_wrap=True)
