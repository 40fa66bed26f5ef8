"""Closets that somebody asks for, renews or drops, each as a run of its own; for command line and API alike."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any
from uuid import UUID

import polars as pl

from rcll.errors import InputError, ModelError, Unreachable
from rcll.frames import DEFAULT_HALL, DEFAULT_ROOM, ROOM_UNITS
from rcll.models import Pace
from rcll.stages.closets import ClosetParams, closet_hall, rank_units, source_hash
from rcll.store.closets import (
    Closet,
    ClosetChanges,
    Status,
    WrittenCloset,
    find_closet,
    list_closets,
    rooms_of_units,
    settle_closets,
)
from rcll.store.explicit import dismiss_closet, forget, record_closet
from rcll.store.extract import extract_members
from rcll.store.lease import Lease, hold_banks
from rcll.store.ledger import finish_run, start_run
from rcll.store.oneline import one_line_errors
from rcll.walk.archive import archive_sources
from rcll.walk.making import Group, Made, Spent, make_closets, preview_closets
from rcll.walk.place import Place

#: Units of one closet; a paragraph about more says nothing.
MAX_SOURCES = 500
_LABEL_CHARS = 64
#: Somebody waits for the one closet: the client's own retries are enough.
_IMPATIENT = Pace(pauses_s=())


@dataclass(frozen=True, slots=True)
class Renewed:
    """What came of a refresh.

    ``n_dropped`` closets had too few sources left, ``n_waiting`` were asked for and lack a source, ``n_left_out`` of a
    plan are beyond its budget; ``failures`` holds a reason for each that a run did not write.
    """

    spent: Spent
    n_written: int = 0
    n_dropped: int = 0
    n_waiting: int = 0
    n_left_out: int = 0
    failures: tuple[str, ...] = ()


def create_closet(
    place: Place, bank: str, unit_ids: Sequence[str], *, room: str | None = None, hall: str | None = None
) -> Closet:
    """Make a closet of these units, which no run will regroup or drop; what is asked for twice is one closet.

    Args:
        place: where.
        bank: whose units they are.
        unit_ids: its sources, 1 to MAX_SOURCES, any order; repeats count once.
        room: where it is filed; by default where most of its units are.
        hall: likewise.

    Raises:
        InputError: no such unit in the bank, blank texts, a label that does not fit.
        Busy: a run holds the bank.
        ModelError: the model that the settings name fails.
    """
    wanted = sorted({_uuid(unit_id) for unit_id in unit_ids})
    if not 0 < len(wanted) <= MAX_SOURCES:
        raise InputError(f"a closet of {len(wanted)} units; expected 1 to {MAX_SOURCES}")
    for label in (room, hall):
        if label is not None and not 0 < len(label.strip()) <= _LABEL_CHARS:
            raise InputError(f"label '{label[:80]}' has {len(label)} characters; expected 1 to {_LABEL_CHARS}")
    _require_migrated(place)
    with _run(place, [bank], {"create": wanted}) as (lease, summary):
        group = _group(place, bank, wanted, room, hall)
        fingerprint = source_hash(group.members["unit_id"].to_list(), group.members["text_hash"].to_list())
        with place.database.connect() as conn:
            there = find_closet(conn, place.tenant, bank, fingerprint)
        made = make_closets(place.settings, [replace(group, closet_id=there)], Spent(), _IMPATIENT)
        closet = _only(made)
        with place.database.connect() as conn, conn.transaction():
            lease.check(conn, place.tenant, [bank])
            record_closet(conn, place.tenant, closet)
        settled = settle_closets(place.database, place.tenant, ClosetChanges(written=[closet]), lease, banks=[bank])
        if settled.unwritten:
            with place.database.connect() as conn:
                forget(conn, place.tenant, [closet.closet_id])
            raise InputError(f"the closet was not written: {settled.unwritten[0]}")
        n_archived = archive_sources(place, bank, closet.room, lease)
        summary |= {"closets": {"n_new": 1, "n_archived": n_archived, **asdict(made.spent)}}
    return show_closet(place, closet.closet_id)


def show_closet(place: Place, closet_id: str) -> Closet:
    """One closet with its freshness.

    Raises:
        InputError: the tenant has none of this id.
    """
    return _require_closets(place, [closet_id])[0]


def drop_closet(place: Place, closet_id: str) -> Closet:
    """Drop a closet for good, whoever made it: its units, as they read now, are condensed no more by any run.

    Units that rested in the archive layer because of it get their layer back. :func:`create_closet` takes it back.

    Returns:
        The closet that was.

    Raises:
        InputError: there is none of this id.
        Busy: a run holds the bank.
    """
    closet = show_closet(place, closet_id)
    with _run(place, [closet.bank_id], {"drop": closet.closet_id}) as (lease, summary):
        with place.database.connect() as conn, conn.transaction():
            lease.check(conn, place.tenant, [closet.bank_id])
            dismiss_closet(conn, place.tenant, closet.closet_id)
        changes = ClosetChanges(dropped=[closet.closet_id])
        settled = settle_closets(place.database, place.tenant, changes, lease, banks=[closet.bank_id])
        summary |= {"closets": {"n_gone": settled.n_gone}}
    return closet


def refresh_closets(
    place: Place, *, banks: Sequence[str] | None = None, closet_ids: Sequence[str] | None = None
) -> Renewed:
    """Summarise closets anew from their sources as they read now: the named ones, or all that are not fresh.

    An automatic closet of which too few sources are left in its room is dropped; one that somebody asked for waits
    for its missing sources.

    Raises:
        InputError: there is no closet of one of these ids.
        Busy: a run holds one of the banks.
        ModelError: the model that the settings name fails for good.
    """
    if closet_ids is not None:
        chosen = _require_closets(place, closet_ids)
    else:
        _require_migrated(place)
        with place.database.connect() as conn:
            found = list_closets(conn, place.tenant, banks=banks, limit=None)
        chosen = [closet for closet in found if closet.status != "fresh"]
    if not chosen:
        return Renewed(Spent())
    held = sorted({closet.bank_id for closet in chosen})
    with _run(place, held, {"refresh": [closet.closet_id for closet in chosen]}) as (lease, summary):
        renewed = renew_closets(place, chosen, lease, Spent())
        summary |= {"closets": asdict(renewed)}
    return renewed


def stale_wishes(place: Place, banks: Sequence[str] | None) -> list[Closet]:
    """Closets that somebody asked for and that are not fresh."""
    if not place.tenant.migrated:
        return []
    with place.database.connect() as conn:
        found = list_closets(conn, place.tenant, banks=banks, limit=None)
    return [closet for closet in found if closet.is_explicit and closet.status != "fresh"]


def renew_closets(place: Place, closets: Sequence[Closet], lease: Lease, spent: Spent) -> Renewed:
    """Summarise closets anew from their sources as they read now, under a lease that covers their banks."""
    if not closets:
        return Renewed(spent)
    groups, dropped, n_waiting = _due(place, closets)
    made = make_closets(place.settings, groups, spent)
    waiting = {closet.closet_id for closet in closets} - {c.closet_id for c in made.closets} - set(dropped)
    stuck = {group.closet_id for group, _ in made.failed}
    marked: dict[str, Status] = {each: "failed" if each in stuck else "stale" for each in sorted(waiting)}
    changes = ClosetChanges(dropped, marked, made.closets)
    banks = sorted({closet.bank_id for closet in closets})
    settled = settle_closets(place.database, place.tenant, changes, lease, banks=banks)
    _remember(place, made.closets, closets, lease)
    for bank, room in sorted({(closet.bank_id, closet.room) for closet in made.closets}):
        archive_sources(place, bank, room, lease)
    failures = (*(reason for _, reason in made.failed), *settled.unwritten)
    n_written = len(made.closets) - len(settled.unwritten)
    return Renewed(made.spent, n_written, settled.n_gone, n_waiting, failures=failures)


def preview_renewals(place: Place, closets: Sequence[Closet], spent: Spent) -> Renewed:
    """What :func:`renew_closets` would do with them."""
    groups, dropped, n_waiting = _due(place, closets)
    after, n_left_out = preview_closets(place.settings, groups, spent)
    return Renewed(after, len(groups) - n_left_out, len(dropped), n_waiting, n_left_out)


def _due(place: Place, closets: Sequence[Closet]) -> tuple[list[Group], list[str], int]:
    """Groups to summarise, ids of automatic closets with too few sources, and how many wait for a missing one."""
    groups: list[Group] = []
    dropped: list[str] = []
    n_waiting = 0
    for closet in closets:
        group, n_missing = _sources(place, closet)
        if closet.is_explicit and n_missing:
            n_waiting += 1
        elif not closet.is_explicit and len(group.members) < ClosetParams().min_members:
            dropped.append(closet.closet_id)
        else:
            groups.append(group)
    return groups, dropped, n_waiting


def _remember(place: Place, written: Sequence[WrittenCloset], closets: Sequence[Closet], lease: Lease) -> None:
    """Let the record of what was asked for hold the new words."""
    asked = {closet.closet_id for closet in closets if closet.is_explicit}
    with place.database.connect() as conn:
        for closet in written:
            if closet.closet_id in asked:
                with conn.transaction():
                    lease.check(conn, place.tenant, [closet.bank_id])
                    record_closet(conn, place.tenant, closet)


def _sources(place: Place, closet: Closet) -> tuple[Group, int]:
    """The sources of a closet as they read now, the most central first, and how many are missing."""
    room = None if closet.is_explicit else closet.room
    with place.database.connect() as conn:
        members, embeddings = extract_members(conn, place.tenant, closet.unit_ids, room=room)
    rank = {unit_id: n for n, unit_id in enumerate(closet.unit_ids)}
    members = members.with_row_index("row").filter(pl.col("bank_id") == closet.bank_id)
    members = members.sort(pl.col("unit_id").replace_strict(rank, default=0, return_dtype=pl.Int64))
    group = Group(
        closet.closet_id,
        closet.bank_id,
        closet.room,
        closet.hall,
        members.drop("row"),
        embeddings[members["row"].to_numpy()],
    )
    return group, len(closet.unit_ids) - len(members)


def _group(place: Place, bank: str, wanted: list[str], room: str | None, hall: str | None) -> Group:
    with place.database.connect() as conn:
        members, embeddings = extract_members(conn, place.tenant, wanted)
        rooms = rooms_of_units(conn, place.tenant, wanted)
    foreign = sorted(set(wanted) - set(members.filter(pl.col("bank_id") == bank)["unit_id"]))
    if foreign:
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        raise InputError(f"bank '{bank}' has no unit '{foreign[0]}'{more}; expected units of this bank")
    if not members["text"].fill_null("").str.contains(r"\S").any():
        raise InputError(f"{len(wanted)} units without a text; expected at least one with words")
    members = members.with_columns(pl.col("text").fill_null(""), pl.col("hall").fill_null(DEFAULT_HALL))
    order = rank_units(members.select(ROOM_UNITS.names()), embeddings, ClosetParams())
    hall = hall or closet_hall(members["hall"].to_list())
    return Group(None, bank, room or rooms[0] or DEFAULT_ROOM, hall, members[order], embeddings[order])


def _only(made: Made) -> WrittenCloset:
    if made.failed:
        raise ModelError(f"no summary: {made.failed[0][1]}")
    return made.closets[0]


def _require_closets(place: Place, closet_ids: Sequence[str]) -> list[Closet]:
    wanted = sorted({_uuid(closet_id, "closet") for closet_id in closet_ids})
    _require_migrated(place)
    with place.database.connect() as conn:
        found = list_closets(conn, place.tenant, closet_ids=wanted, limit=None)
    missing = sorted(set(wanted) - {closet.closet_id for closet in found})
    if missing:
        raise InputError(
            f"schema '{place.tenant.schema}' has no closet '{missing[0]}'; expected one that rcll closets lists"
        )
    return found


def _require_migrated(place: Place) -> None:
    if not place.tenant.migrated:
        raise InputError(f"schema '{place.tenant.schema}' is not migrated; expected rcll's tables; run rcll migrate")


def _uuid(given: str, what: str = "unit") -> str:
    try:
        return str(UUID(given))
    except ValueError:
        raise InputError(f"'{given[:60]}' is no {what} id; expected a uuid, as rcll closets --json shows") from None


@contextmanager
def _run(place: Place, banks: Sequence[str], asked: dict[str, Any]) -> Generator[tuple[Lease, dict[str, Any]]]:
    """A run of kind "closets" that holds the banks; what the block puts into the summary is recorded with it."""
    with place.database.connect() as conn:
        run_id = start_run(conn, place.tenant, kind="closets", taxonomy_hash="", parameters=asked)
    status, summary = "failed", dict[str, Any]()
    try:
        with (
            one_line_errors("changing closets"),
            hold_banks(place.database, place.tenant, banks, run_id) as lease,
        ):
            yield lease, summary
        status = "done"
    finally:
        with suppress(Unreachable), place.database.connect() as conn:
            finish_run(conn, place.tenant, run_id, status=status, summary=summary)
