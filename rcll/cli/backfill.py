"""Commands for the long run over legacy banks: backfill, and pause, resume or stop what is running."""

from typing import Annotated, Any

import typer

from rcll.cli.output import (
    Banks,
    Batch,
    Json,
    Layers,
    Rate,
    Schemas,
    TaxonomyFile,
    out,
    print_json,
    print_table,
    use_limits,
    use_rules,
)
from rcll.cli.walk import run_in_prefect, show_and_end
from rcll.errors import InputError
from rcll.pauses import PauseWindow
from rcll.prefect_env import prepare_prefect
from rcll.settings import load_settings

Run = Annotated[str | None, typer.Argument(metavar="[RUN]", help="Which; without it every running backfill.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (backfill, pause, resume, stop):
        app.command()(command)


def backfill(
    bank: Banks = None,
    schema: Schemas = None,
    rate: Rate = None,
    pause: Annotated[
        list[str] | None,
        typer.Option(
            "--pause", help='Write nothing at these times, e.g. "22:00-06:00"; repeatable.', show_default=False
        ),
    ] = None,
    batch: Batch = None,
    pages: Annotated[int, typer.Option("--pages", min=1, help="Heap pages of one task.")] = 10_000,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how much there is to do.")] = False,
    taxonomy: TaxonomyFile = None,
    layers: Layers = False,
    json: Json = False,
) -> None:
    """File every unit of large legacy banks, beside a live server, for as long as it takes.

    Killed or stopped at any moment, it goes on where it was when you say it again. It waits while the server is slow
    or a standby is behind (RCLL_MAX_LATENCY, RCLL_MAX_LAG). rcll pause, resume and stop steer it from elsewhere.
    Closets and tunnels are left to rcll reorganize.

    Examples: rcll backfill --dry-run | rcll backfill --rate 2000 --pause "08:00-18:00 Europe/Berlin"
    """
    from rcll.walk.place import open_places, places_of, refuse_hopeless

    for window in pause or ():
        try:
            PauseWindow.parse(window)
        except ValueError as error:
            raise InputError(str(error)) from None
    use_rules(taxonomy, layers)
    use_limits(rate, batch)
    settings = load_settings()
    prepare_prefect(settings.home)
    with open_places(schema or ()) as places:
        chosen = places_of(places, bank)
        if dry_run:
            estimates = [_estimate(place, banks) for place, banks in chosen]
            print_json(estimates) if json else _show_estimates(estimates)
            return
        refuse_hopeless(chosen)
        if not json:
            _show_estimates([_estimate(place, banks) for place, banks in chosen])
        asked = {"banks": bank, "schemas": schema, "rate": rate, "pauses": pause, "pages": pages}
        summaries = run_in_prefect("backfill", "backfill", **asked)
    show_and_end(summaries, json=json)


def _estimate(place: Any, banks: list[str] | None) -> dict[str, Any]:
    from dataclasses import asdict

    from rcll.walk.backfill import estimate

    return {"schema": place.tenant.schema} | asdict(estimate(place, banks, place.settings.rate))


def _show_estimates(estimates: list[dict[str, Any]]) -> None:
    rows = [
        (each["schema"], each["n_units"], each["n_unfiled"], each["n_pages"], f"{each['seconds'] / 60:,.1f}")
        for each in estimates
    ]
    print_table("to file", ("schema", "units", "not filed yet", "pages", "minutes, about"), rows)
    out.print("a run that was stopped or killed goes on when you say the same again")


def pause(run: Run = None, schema: Schemas = None, json: Json = False) -> None:
    """Let running backfills wait, within a second or two, until rcll resume.

    Examples: rcll pause | rcll pause 5f0c…
    """
    _control("pause", run, schema, json=json)


def resume(run: Run = None, schema: Schemas = None, json: Json = False) -> None:
    """Let backfills that were paused go on.

    Examples: rcll resume
    """
    _control("resume", run, schema, json=json)


def stop(run: Run = None, schema: Schemas = None, json: Json = False) -> None:
    """End running backfills before their next transaction; the next rcll backfill goes on from there.

    Examples: rcll stop
    """
    _control("stop", run, schema, json=json)


def _control(word: Any, run: str | None, schemas: list[str] | None, *, json: bool) -> None:
    from rcll.store.control import control_runs
    from rcll.walk.place import open_places

    asked: list[str] = []
    with open_places(schemas or ()) as places:
        for place in places:
            if place.tenant.migrated:
                with place.database.connect() as conn:
                    asked += control_runs(conn, place.tenant, word, run)
    if not asked:
        raise InputError(
            f"no backfill {f'with the id {run[:60]} ' if run else ''}is running; expected one; see rcll runs"
        )
    if json:
        print_json([{"run_id": each, "asked": word} for each in asked])
    else:
        for each in asked:
            out.print(f"run {each}: asked to {word}")
