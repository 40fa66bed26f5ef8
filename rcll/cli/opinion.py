"""``rcll opinion``: units that stand elsewhere than those that read like them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rcll.cli.output import (
    Banks,
    Json,
    TaxonomyFile,
    err,
    out,
    print_json,
    print_table,
    progress_bars,
    shorten,
    use_rules,
)
from rcll.cli.sql import From, Schema
from rcll.errors import InputError
from rcll.settings import load_settings

if TYPE_CHECKING:
    from rcll.analyst.layout import Snapshot
    from rcll.analyst.opinion import BankOpinion

_WORDS = 10


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(opinion)


def opinion(
    bank: Banks = None,
    folder: From = None,
    schema: Schema = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Units shown of each bank at most.")] = 20,
    taxonomy: TaxonomyFile = None,
    json: Json = False,
) -> None:
    """List units whose neighbours by embedding stand in another room, most likely misfiled first. Nothing is written.

    Each bank's rooms are learned from labels that can be trusted: explicit ones, and those of specific rules. About
    half of the proposals are right (docs/analysts.md), so look before you label.

    Without --from the banks are looked at afresh; with it the newest snapshot there.

    Examples: rcll opinion --bank alice | rcll opinion --from /data/palace --limit 50 --json
    """
    from rcll.cli.analyst import fresh_or_named

    use_rules(taxonomy, layers=False)
    with progress_bars(), fresh_or_named(folder, schema, banks=bank, embeddings=True) as where:
        found = _ask(where, schema, bank)
    if json:
        print_json([_as_dict(each, limit) for each in found])
        return
    for each in found:
        _show(each, limit)
    if any(len(each.opinions) for each in found):
        out.print("\nright? say  rcll label UNIT --room ROOM   or give the words to a rule: rcll taxonomy show")


def _ask(where: str, schema: str | None, banks: Sequence[str] | None) -> "list[BankOpinion]":
    from rcll.analyst.layout import list_snapshots
    from rcll.analyst.opinion import second_opinion
    from rcll.analyst.stores import local_copy
    from rcll.progress import report
    from rcll.taxonomy import load_taxonomy

    rules = load_taxonomy(load_settings().taxonomy)
    with local_copy(where) as local:
        newest = list_snapshots(Path(local), schema)[-1]
        found: list[BankOpinion] = []
        names = _names(newest, banks)
        for number, name in enumerate(names, start=1):
            found.append(second_opinion(newest, name, rules))
            report("opinion", number, len(names), bank=name)
    return found


def _names(snapshot: "Snapshot", banks: Sequence[str] | None) -> list[str]:
    """Banks to look at; those without units only where they were asked for."""
    held = {bank.bank_id: bank.n_units for bank in snapshot.manifest.banks}
    for name in banks or ():
        if name not in held:
            raise InputError(f"no bank '{name}' in {snapshot.path}; expected one of {', '.join(sorted(held)[:10])}")
    return sorted(set(banks)) if banks else [name for name, n_units in held.items() if n_units]


def _as_dict(found: "BankOpinion", limit: int) -> dict[str, Any]:
    return {
        "bank_id": found.bank_id,
        "n_units": found.n_units,
        "n_sure": found.n_sure,
        "n_learned": found.n_learned,
        "n_opinions": len(found.opinions),
        "opinions": found.opinions.head(limit).to_dicts(),
        "words": found.words.to_dicts(),
    }


def _show(found: "BankOpinion", limit: int) -> None:
    if not found.n_learned:
        err.print(
            f"bank '{found.bank_id}': {found.n_sure:,} of {found.n_units:,} units have labels to learn from (explicit, "
            f"or by a specific rule); expected 20 with vectors in two rooms; run rcll reorganize, or label some",
            markup=False,
            soft_wrap=True,
        )
        return
    title = (
        f"bank {found.bank_id}: {len(found.opinions):,} of {found.n_units:,} units, learned from {found.n_learned:,}"
    )
    columns = ("unit", "room", "proposed", "likely", "backed by", "reads like", "text")
    rows = [_row(unit) for unit in found.opinions.head(limit).iter_rows(named=True)]
    if not rows:
        out.print(f"{title}: no unit stands elsewhere than its neighbours", markup=False)
        return
    print_table(title, columns, rows)
    if len(found.words):
        shown = found.words.head(_WORDS).select("word", "room", "n_units", "n_decided")
        print_table("words for rules", ("word", "room", "doubted units", "sure units"), shown.iter_rows())


def _row(unit: dict[str, Any]) -> tuple[str, ...]:
    likely, backed_by = f"{unit['likelihood']:.0%}", unit["rule"] or "neighbours alone"
    where = (unit["unit_id"][:8], unit["room"], unit["proposed_room"])
    return (*where, likely, backed_by, unit["alike"][:8], shorten(unit["text"], 120))
