"""Commands that walk the data: migrate, plan, reorganize."""

import logging
import os
from importlib import import_module
from typing import Annotated, Any, Literal

import typer

from rcll.cli.output import (
    PARTIAL,
    Archive,
    Banks,
    Batch,
    Json,
    Layers,
    MaxCalls,
    MaxTokens,
    Rate,
    Schemas,
    TaxonomyFile,
    err,
    out,
    print_json,
    print_table,
    progress_bars,
    use_closets,
    use_limits,
    use_rules,
)
from rcll.errors import InputError
from rcll.logs import log_to_stderr
from rcll.prefect_env import prepare_prefect
from rcll.prefect_server import check_api, find_api, start_server
from rcll.settings import load_settings

#: Counts of a run's closets and what they are called; the first are shown even where they are 0.
_CLOSET_COUNTS = {
    "new": "new",
    "updated": "updated",
    "gone": "gone",
    "kept": "as they were",
    "failed": "failed",
    "renewed": "asked for and renewed",
    "waiting": "asked for and waiting for a source",
    "archived": "units moved to layer 3",
    "released": "units given back",
    "left_out": "beyond --max-calls or --max-tokens",
}
_ALWAYS = ("new", "updated", "gone", "as they were", "failed")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(migrate)
    app.command()(plan)
    app.command()(reorganize)


def migrate(
    schema: Schemas = None,
    check: Annotated[bool, typer.Option("--check", help="Only say what is pending.")] = False,
    down: Annotated[bool, typer.Option("--down", help="Remove what rcll added, and nothing else.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --down: do it.")] = False,
    json: Json = False,
) -> None:
    """Bring the database to this version of rcll, or take rcll out of it again.

    Examples: rcll migrate --check | rcll migrate | rcll migrate --down --yes
    """
    from rcll.store.migrate import migrate as apply
    from rcll.store.migrate import pending, rollback, rollback_preview
    from rcll.walk.place import open_places

    results: list[dict[str, Any]] = []
    with open_places(schema or ()) as places:
        for place in places:
            database, tenant = place.database, place.tenant
            found: dict[str, Any] = {"schema": tenant.schema, "kind": tenant.kind}
            with database.connect() as conn:
                if down:
                    losses = rollback_preview(conn, tenant)
                    found |= {"columns": losses.columns, "tables": losses.tables}
                    found |= {"explicit_labels": losses.explicit_labels, "removed": yes and not check}
                elif check:
                    found["pending"] = [migration.name for migration in pending(conn, tenant)]
            if down and yes and not check:
                rollback(database, tenant)
            elif not (check or down):
                found["applied"] = [migration.name for migration in apply(database, tenant)]
            results.append(found)
    if json:
        print_json(results)
    else:
        for found in results:
            _print_migration(found)
    if down and not yes and not check:
        raise InputError("nothing was removed; say --yes to lose what is listed")


def _print_migration(found: dict[str, Any]) -> None:
    where = f"schema {found['schema']} ({found['kind']})"
    if "columns" in found:
        rows = [*found["columns"].items(), *found["tables"].items()]
        print_table(f"{where}: what rcll added", ("object", "rows that are lost"), rows)
        out.print(f"labels that somebody set on purpose: {found['explicit_labels']}")
        return
    verb, names = ("pending", found["pending"]) if "pending" in found else ("applied", found["applied"])
    out.print(f"{where}: {verb} {', '.join(names) if names else 'nothing'}")


def plan(
    bank: Banks = None,
    schema: Schemas = None,
    taxonomy: TaxonomyFile = None,
    layers: Layers = False,
    archive_sources: Archive = False,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    json: Json = False,
) -> None:
    """Say what a run would change, why, and what its closets would cost; the database is only read.

    Examples: rcll plan | rcll plan --bank alice --layers --json
    """
    use_rules(taxonomy, layers)
    use_closets(archive_sources=archive_sources, max_calls=max_calls, max_tokens=max_tokens)
    _show(run_flow(banks=bank, schemas=schema, only=None, dry_run=True), json=json)


def reorganize(
    bank: Banks = None,
    schema: Schemas = None,
    only: Annotated[
        Literal["labels", "closets", "tunnels"] | None, typer.Option("--only", help="One stage.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="The same as rcll plan.")] = False,
    rate: Rate = None,
    batch: Batch = None,
    taxonomy: TaxonomyFile = None,
    layers: Layers = False,
    archive_sources: Archive = False,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    json: Json = False,
) -> None:
    """File every unit, condense oversized rooms, dig tunnels.

    Labels that somebody set are kept. A second run writes nothing.

    Examples: rcll reorganize | rcll reorganize --bank alice --only labels
    """
    use_rules(taxonomy, layers)
    use_limits(rate, batch)
    use_closets(archive_sources=archive_sources, max_calls=max_calls, max_tokens=max_tokens)
    show_and_end(run_flow(banks=bank, schemas=schema, only=only, dry_run=dry_run), json=json)


def run_flow(*, banks: list[str] | None, schemas: list[str] | None, **parameters: Any) -> list[dict[str, Any]]:
    """Run the Prefect flow in this process, after a look at what a wrong input would stop at once.

    The look keeps the embedded server up for the flow, and starting Prefect takes ten seconds.
    """
    from rcll.walk.place import open_places, places_of, refuse_hopeless

    prepare_prefect(load_settings().home)
    with open_places(schemas or ()) as places:
        chosen = places_of(places, banks)
        if not parameters.get("dry_run"):
            refuse_hopeless(chosen)
        return run_in_prefect("reorganize", "reorganize", banks=banks, schemas=schemas, **parameters)


def run_in_prefect(module: str, name: str, **parameters: Any) -> list[dict[str, Any]]:
    """Run a flow of flows.<module> in this process; the environment is prepared.

    Raises:
        Unreachable: PREFECT_API_URL names no Prefect API.
    """
    log_to_stderr(load_settings().log_format)
    with err.status("starting Prefect"):
        api = find_api()
        if api:
            check_api(api)
            err.print(f"Prefect API: {api.rpartition('@')[2]}", style="dim")
        else:
            os.environ["PREFECT_API_URL"] = start_server()
        flows = import_module(f"flows.{module}")
    with progress_bars():
        try:
            summaries: Any = getattr(flows, name)(**parameters)  # a state only on request
        finally:
            logging.disable(logging.CRITICAL)  # Prefect's threads complain when the program ends
    return summaries


def show_and_end(summaries: list[dict[str, Any]], *, json: bool) -> None:
    """Print the summaries of a run; exit code 3 where it was not done wholly."""
    _show(summaries, json=json)
    if any(summary["status"] == "partial" for summary in summaries):
        raise typer.Exit(PARTIAL)


def _show(summaries: list[dict[str, Any]], *, json: bool) -> None:
    if json:
        print_json(summaries)
        return
    for summary in summaries:
        show_summary(summary)


def show_summary(summary: dict[str, Any]) -> None:
    """Print one tenant's summary: before and after, what was written, what was kept, what was skipped."""
    labels = summary["labels"]
    out.print(f"\n[bold]schema {summary['schema']}[/bold] ({summary['kind']}): {labels['n_units']:,} units")
    for field in ("room", "hall"):
        before, after = labels["before"][field], labels["after"][field]
        names = sorted({*before, *after}, key=lambda name: (-after.get(name, 0), name))
        rows = [(name, before.get(name, 0), after.get(name, 0)) for name in names]
        print_table(f"units per {field}", (field, "before", "after"), rows)
    _show_writes(summary)
    for warning in labels.get("quality", {}).get("warnings", ()):
        out.print(f"warning: {warning}", markup=False, style="yellow")
    seconds = ", ".join(f"{stage} {value:.1f} s" for stage, value in summary["seconds"].items())
    out.print(f"time: {seconds}")
    if summary["status"] == "planned":
        pending = summary["pending_migrations"]
        out.print(f"plan [bold]{summary['plan_id']}[/bold]; nothing was written; rcll apply PLAN writes it", end="")
        out.print(f"; pending migrations: {', '.join(pending)}" if pending else "")
    else:
        out.print(f"run [bold]{summary['run_id']}[/bold] {summary['status']}")


def _show_writes(summary: dict[str, Any]) -> None:
    labels = summary["labels"]
    loaded = summary.get("loaded")
    skipped: dict[str, int] = labels.get("skipped", {}) | (loaded or {}).get("skipped", {})
    if loaded:
        _show_labels(labels, loaded["n_written"], loaded["n_recorded"], skipped, "got new labels")
        for note in loaded["notes"]:
            out.print(f"  slower than it could be: {note}", markup=False)
        for reason, seconds in loaded["waited"].items():
            out.print(f"  waited {seconds:,.0f} s: {reason}", markup=False)
    else:
        _show_labels(labels, labels["n_to_write"], labels["n_to_record"], skipped, "would get new labels")
    out.print(f"explicit: {labels['n_explicit']:,} of these units bear a label that somebody set; it stays as it is")
    for hint in summary.get("hints", ()):
        out.print(f"  {hint}", markup=False)
    if any((restored := summary.get("restored") or {}).values()):
        out.print(
            f"asked for: {restored['n_tunnels']} tunnels and {restored['n_closets']} closets came back; "
            f"{restored['n_waiting']} wait for a unit that is gone or reads differently"
        )
    out.print("skipped: " + (", ".join(f"{n:,} {why}" for why, n in skipped.items()) or "0"))
    if closets := summary.get("closets"):
        _show_closets(closets)
    if tunnels := summary.get("tunnels"):
        counts = f"{tunnels['n_new']} new, {tunnels['n_updated']} updated, {tunnels['n_gone']} gone, "
        counts += f"{tunnels['n_kept']} as they were"
        hint = "" if tunnels["pairs"] else "; no pair of banks is allowed, set tunnel_pairs in rcll.toml"
        out.print(f"tunnels: {counts}{hint}", markup=False)


def _show_labels(labels: dict[str, Any], n_written: int, n_recorded: int, skipped: dict[str, int], what: str) -> None:
    """One line whose numbers, with those skipped, add up to the units."""
    n_known = labels["n_units"] - n_written - n_recorded - sum(skipped.values())
    out.print(
        f"labels: of {labels['n_units']:,} units {n_written:,} {what}, {n_recorded:,} keep theirs and are noted in the "
        f"ledger, {n_known:,} are as they were"
    )


def _show_closets(closets: dict[str, Any]) -> None:
    counts = [(closets[f"n_{name}"], word) for name, word in _CLOSET_COUNTS.items()]
    said = ", ".join(f"{n:,} {word}" for n, word in counts if n or word in _ALWAYS)
    out.print(
        f"closets: {said}; {closets['n_rooms']} rooms of {closets['threshold']} units or more; "
        f"{closets['n_calls']} model calls, {closets['n_tokens']:,} tokens"
        + ("" if closets["cost"] is None else f", about {closets['cost']:.2f}")
    )
    for reason in closets["failures"][:5]:
        out.print(f"  closet failed: {reason}", markup=False)
