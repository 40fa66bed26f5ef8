"""What the report tells, asked of a snapshot; plain rows, and sentences about what to look at next."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from rcll.analyst.duck import Connection
from rcll.resources import sql_dir
from rcll.store.sql import named_texts

Rows = list[dict[str, Any]]

#: Shares of all units above which the page says so; those of rcll.stages.quality.
_MANY_GENERAL, _MANY_UNDECIDED = 0.5, 0.5
_MANY_REPEATED = 0.05


@dataclass(frozen=True, slots=True)
class Hint:
    """Something to look at, and the command that helps."""

    weight: str
    text: str
    command: str


def rows_of(connection: Connection, name: str, *values: Any) -> Rows:
    """Rows of a query of sql/report.sql as dictionaries."""
    cursor = connection.execute(_queries()[name], list(values))
    columns = [str(column[0]) for column in cursor.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]


@cache
def _queries() -> dict[str, str]:
    return named_texts(sql_dir() / "report.sql")


def closets_with_sources(connection: Connection) -> Rows:
    """Closets to show, each with its sources."""
    closets = rows_of(connection, "closets")
    sources = rows_of(connection, "sources", [closet["closet_id"] for closet in closets])
    by_closet: dict[str, Rows] = {}
    for source in sources:
        by_closet.setdefault(source["closet_id"], []).append(source)
    return [closet | {"sources": by_closet.get(closet["closet_id"], [])} for closet in closets]


def hints(connection: Connection, totals: dict[str, Any], *, threshold: int) -> list[Hint]:
    """What to look at next, the most pressing first."""
    if not totals["n_units"]:
        return [Hint("note", "The banks hold no units yet.", "rcll demo")]
    found = [*_about_labels(totals), *_about_closets(connection, threshold), *_about_banks(connection, totals)]
    return sorted(found, key=lambda hint: ("act", "look", "note").index(hint.weight))


def _about_labels(totals: dict[str, Any]) -> list[Hint]:
    found: list[Hint] = []
    n_units = totals["n_units"]
    if unfiled := n_units - totals["n_filed"]:
        found.append(Hint("act", f"{unfiled:,} units are not filed yet.", "rcll plan"))
    elif totals["n_general"] / n_units > _MANY_GENERAL:
        share = totals["n_general"] / n_units
        found.append(Hint("act", f"{share:.0%} of the units are in room general.", "rcll taxonomy suggest"))
    return found


def _about_closets(connection: Connection, threshold: int) -> list[Hint]:
    found = [
        Hint(
            "act", f"{row['n_closets']:,} closets are {row['status']} and not shown.", "rcll reorganize --only closets"
        )
        for row in rows_of(connection, "stale")
    ]
    found += [
        Hint(
            "look",
            f"Room {row['room']} of bank {row['bank_id']} holds {row['n_units']:,} units and has no closet.",
            "rcll reorganize --only closets",
        )
        for row in rows_of(connection, "uncovered", threshold)
    ]
    return found


def _about_banks(connection: Connection, totals: dict[str, Any]) -> list[Hint]:
    found = [
        Hint(
            "look",
            f"{row['share']:.0%} of bank {row['bank_id']} is in a language without rules.",
            "rcll sql unsupported_languages",
        )
        for row in rows_of(connection, "unsupported")
    ]
    found += [
        Hint(
            "look",
            f"Only bank {row['bank_id']} knows about {row['room']} ({row['n_units']:,} units).",
            "rcll sql silos",
        )
        for row in rows_of(connection, "silo_names")
    ]
    (repeated,) = rows_of(connection, "duplicates")
    if repeated["n_units"] / totals["n_units"] > _MANY_REPEATED:
        text = f"{repeated['n_units']:,} units repeat one another; the largest cluster has {repeated['largest']:,}."
        found.append(Hint("look", text, "rcll sql near_duplicates"))
    drift = rows_of(connection, "drift")
    if drift:
        moved = ", ".join(f"{row['n_units']:,} {row['what']}" for row in drift)
        found.append(Hint("note", f"Since the snapshot before: {moved}.", "rcll sql drift_between_snapshots"))
    if totals["n_banks"] > 1 and not totals["n_tunnels"]:
        found.append(Hint("note", "No tunnel links the banks; pairs have to be allowed first.", "rcll tunnels --help"))
    return found
