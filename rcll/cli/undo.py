"""Commands round a plan and a run: apply, undo, adopt."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from rcll.cli.output import (
    PARTIAL,
    Archive,
    Batch,
    Json,
    Layers,
    MaxCalls,
    MaxTokens,
    Rate,
    Schemas,
    TaxonomyFile,
    out,
    print_json,
    print_table,
    use_closets,
    use_limits,
    use_rules,
)
from rcll.cli.walk import run_in_prefect, show_and_end
from rcll.errors import InputError
from rcll.prefect_env import prepare_prefect
from rcll.settings import load_settings

RunId = Annotated[
    str, typer.Argument(metavar="RUN", help="Id of a run, as rcll runs shows it; its first digits are enough.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(apply)
    app.command()(undo)
    app.command()(adopt)


def apply(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="Id that rcll plan printed.")],
    rate: Rate = None,
    batch: Batch = None,
    taxonomy: TaxonomyFile = None,
    layers: Layers = False,
    archive_sources: Archive = False,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    json: Json = False,
) -> None:
    """Write exactly what a plan says; units that changed since are skipped and counted.

    Examples: rcll apply plan-20260301-181500-3f2a1c
    """
    from rcll.walk.place import open_places, refuse_hopeless
    from rcll.walk.plans import check_plan, find_plans

    use_rules(taxonomy, layers)
    use_limits(rate, batch)
    use_closets(archive_sources=archive_sources, max_calls=max_calls, max_tokens=max_tokens)
    settings = load_settings()
    prepare_prefect(settings.home)
    plans = find_plans(settings, plan)
    with open_places([each.fingerprint.schema for each in plans]) as places:
        for place, each in zip(places, plans, strict=True):
            check_plan(place, each)
        refuse_hopeless([(place, each.banks) for place, each in zip(places, plans, strict=True)])
        summaries = run_in_prefect("reorganize", "apply", plan_id=plan)
    show_and_end(summaries, json=json)


def undo(
    run: RunId,
    release: Annotated[
        bool, typer.Option("--release", help="Do not hold the units: the next run files them again.")
    ] = False,
    schema: Schemas = None,
    json: Json = False,
) -> None:
    """Give back the labels that a run replaced, and drop its closets and tunnels.

    What somebody has changed since stays. The units are held: later runs leave them alone until their text or
    the rules change; --release ends that, at once or afterwards.

    Examples: rcll undo 5f0c… | rcll undo 5f0c… --release
    """
    from rcll.store.ledger import match_runs
    from rcll.walk.ids import find_id
    from rcll.walk.place import open_places
    from rcll.walk.undo import undo_run

    with open_places(schema or ()) as places:
        place, run_id = find_id(places, run, match_runs, what="run", hint="one of those that rcll runs lists")
        undone = undo_run(place, run_id, release=release)
    if json:
        print_json(asdict(undone))
    else:
        _show_undone(undone)
    if undone.status == "partial":
        raise typer.Exit(PARTIAL)


def _show_undone(undone: Any) -> None:
    if undone.n_released:
        out.print(f"{undone.n_released:,} units released: the next run files them")
        return
    held = f", {undone.n_held:,} of them held" if undone.n_held else ""
    out.print(f"run {undone.undoes[:8]}: {undone.n_restored:,} units have their labels back{held}")
    out.print(f"dropped: {undone.n_closets} closets, {undone.n_tunnels} tunnels; the next run makes what is due")
    out.print("kept as they are: " + (", ".join(f"{n:,} {why}" for why, n in undone.skipped.items()) or "0"))
    if undone.status == "partial":
        out.print("some units were locked all the while; say the same again")


def adopt(
    bank: Annotated[list[str], typer.Option("--bank", help="Bank whose labels to take over; repeatable.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without it only the preview is shown.")] = False,
    schema: Schemas = None,
    json: Json = False,
) -> None:
    """Make labels that others have set rcll's own: a fork's automatic ones, a restored backup's.

    The next run decides about them by the rules. What was set through rcll label stays.

    Examples: rcll adopt --bank alice | rcll adopt --bank alice --yes
    """
    from rcll.walk.adopt import adopt as adopt_labels
    from rcll.walk.adopt import preview
    from rcll.walk.place import open_places, places_of

    banks = sorted(set(bank))
    results: list[dict[str, Any]] = []
    with open_places(schema or ()) as places:
        for place, held in places_of(places, banks):
            names = held or []
            labels = {name: [label._asdict() for label in preview(place, name)] for name in names}
            adopted = adopt_labels(place, names) if yes else None
            results.append({"schema": place.tenant.schema, "labels": labels, "adopted": adopted})
    if json:
        print_json(results)
    else:
        _show_adopted(results)
    if not yes:
        raise InputError("nothing was adopted; say --yes to make these labels rcll's own")


def _show_adopted(results: list[dict[str, Any]]) -> None:
    for found in results:
        for bank, labels in found["labels"].items():
            rows = [(label["field"], label["value"], label["n_units"]) for label in labels]
            print_table(f"labels of bank {bank} that rcll did not write", ("field", "value", "units"), rows)
            if found["adopted"]:
                out.print(f"{found['adopted'][bank]:,} units adopted; the next run files them by the rules")
