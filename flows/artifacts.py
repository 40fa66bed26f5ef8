"""What a run leaves for people to look at in Prefect's UI: a summary, a table of rooms, a list of closets.

Names and numbers only; with RCLL_EXCERPTS also titles of closets, cut and masked. Whatever comes from memories is
escaped: it is shown as text, never as Markdown or HTML.
"""

import re
from collections.abc import Mapping
from typing import Any

import httpx
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.exceptions import PrefectException

from rcll.logs import get_logger
from rcll.models.mask import masked_head
from rcll.store.closets import list_closets
from rcll.walk.place import Place

logger = get_logger("rcll.flows")

API_ERRORS = (PrefectException, httpx.HTTPError)
#: Characters of a title, and closets that are listed.
TITLE_CHARS, LISTED = 80, 50
_MARKUP = re.compile(r"([\\`*_{}\[\]()#+!|~&<>-])")


def publish(flow: str, place: Place, summary: Mapping[str, Any]) -> None:
    """Leave the artifacts of one tenant's run; keys name flow and schema, so that the UI shows how they change.

    The run is over and recorded: an API that does not take them is no failure of it.
    """
    try:
        _publish(flow, place, summary)
    except API_ERRORS as error:
        logger.warning("no artifacts of this run: %s", type(error).__name__)


def _publish(flow: str, place: Place, summary: Mapping[str, Any]) -> None:
    key = re.sub(r"[^a-z0-9]+", "-", f"{flow}-{place.tenant.schema}".lower()).strip("-")
    create_markdown_artifact(markdown(flow, summary), key=key, description=f"What {flow} did in its last run.")
    rows = [
        {"kind": field, "label": name, "before": before, "after": after, "change": after - before}
        for field in ("room", "hall")
        for name, before, after in _labels(summary, field)
    ]
    create_table_artifact(rows, key=f"{key}-labels", description="Units by room and hall, before and after.")
    if place.settings.excerpts and place.tenant.migrated and "closets" in summary:
        create_table_artifact(_closets(place), key=f"{key}-closets", description="Closets, the largest of each room.")


def markdown(flow: str, summary: Mapping[str, Any]) -> str:
    """The summary of one tenant's run as Markdown."""
    title = f"# {flow}: {_plain(summary['status'])}, schema {_plain(summary['schema'])}"
    lines = [title, "", *(f"* {line}" for line in _facts(summary))]
    for field in ("room", "hall"):
        lines += ["", f"| {field} | before | after |", "|---|--:|--:|"]
        lines += [f"| {_plain(name)} | {before:,} | {after:,} |" for name, before, after in _labels(summary, field)]
    return "\n".join(lines)


def _facts(summary: Mapping[str, Any]) -> list[str]:
    labels, loaded = summary["labels"], summary.get("loaded") or {}
    skipped = {**labels.get("skipped", {}), **loaded.get("skipped", {})}
    facts = [f"run {summary['run_id']}"] if "run_id" in summary else [f"plan {summary.get('plan_id')}, nothing written"]
    facts.append(f"{labels['n_units']:,} units, {labels['n_explicit']:,} with a label that somebody set, kept")
    if loaded:
        facts.append(f"{loaded['n_written']:,} units written, {loaded['n_recorded']:,} more recorded")
    facts.append("skipped: " + (", ".join(f"{n:,} {_plain(why)}" for why, n in skipped.items()) or "none"))
    for stage in ("closets", "tunnels"):
        if found := summary.get(stage):
            names = ("new", "updated", "gone", "kept", "failed")
            facts.append(f"{stage}: " + ", ".join(f"{found[f'n_{n}']:,} {n}" for n in names if f"n_{n}" in found))
    facts += [f"warning: {_plain(line)}" for line in labels.get("quality", {}).get("warnings", ())]
    facts += [f"note: {_plain(line)}" for line in (*loaded.get("notes", ()), *summary.get("hints", ()))]
    if stopped := summary.get("stopped"):
        facts.append(f"stopped: {_plain(stopped)}")
    facts.append("time: " + ", ".join(f"{stage} {value:.1f} s" for stage, value in summary["seconds"].items()))
    return facts


def _labels(summary: Mapping[str, Any], field: str) -> list[tuple[str, int, int]]:
    """(label, units before, units after), most first."""
    before, after = (summary["labels"][when].get(field, {}) for when in ("before", "after"))
    names = sorted({*before, *after}, key=lambda name: (-after.get(name, 0), name))
    return [(name, before.get(name, 0), after.get(name, 0)) for name in names]


def _closets(place: Place) -> list[dict[str, Any]]:
    with place.database.connect() as conn:
        found = list_closets(conn, place.tenant, limit=LISTED)
    return [
        {
            "bank": closet.bank_id,
            "room": closet.room,
            "title": masked_head(closet.title, TITLE_CHARS),
            "units": closet.n_sources,
            "status": closet.status,
        }
        for closet in found
    ]


def _plain(value: object) -> str:
    """Text as itself on one line: nothing in it is markup."""
    return _MARKUP.sub(r"\\\1", " ".join(str(value).split()))
