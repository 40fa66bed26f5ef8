"""Makes the demo's units from the material: repetitive where real banks repeat, and the same on every machine."""

import random
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache, partial
from typing import NamedTuple
from uuid import UUID, uuid5

import polars as pl

from rcll.demo.grammar import Grammar, uses_month
from rcll.demo.material import Bank, Matter, read_banks, read_explicit, read_matters, read_slots

_NAMESPACE = UUID("7d1f6c3e-0c5b-5f0e-9a54-2f6f1c0b8e11")
_TIME = pl.Datetime("us", "UTC")

#: Units as a legacy bank holds them, sorted by time of writing, then id.
DEMO_UNITS = pl.Schema(
    {
        "unit_id": pl.String,
        "bank_id": pl.String,
        "text": pl.String,
        "context": pl.String,
        "fact_type": pl.String,
        "occurred_at": _TIME,
        "created_at": _TIME,
        "tags": pl.List(pl.String),
    }
)
#: What the author meant: ``matter`` is shared by banks that know of the same thing; serves tests.
DEMO_TRUTH = pl.Schema({"unit_id": pl.String, "bank_id": pl.String, "room": pl.String, "matter": pl.String})

_DETAIL_SHARE = 0.3
_SECOND_SHARE = 0.7
_ECHO_SHARE = 0.08
_OBSERVATION_SHARE = 0.08
_TRIES = 12
#: How a second session notes a thing again in the first one's words.
_ECHOES = ("Reminder: {}", "Noted again: {}", "For the record: {}", "FYI: {}", "As before: {}", "{} (seen twice)")
_FIRST_PERSON = re.compile(r"\bI\b")


class ExplicitExample(NamedTuple):
    """A label that somebody sets by hand in the demo."""

    unit_id: str
    room: str
    hall: str
    layer: int


class _Unit(NamedTuple):
    unit_id: str
    bank_id: str
    text: str
    context: str
    fact_type: str
    occurred_at: datetime
    created_at: datetime
    tags: list[str]
    room: str
    matter: str


def demo_units(seed: int = 7) -> pl.DataFrame:
    """Every unit of the three legacy banks; schema DEMO_UNITS, sorted by (created_at, unit_id).

    Ids do not depend on the seed; texts, times and counts of repeats do.
    """
    return _frame(seed).select(DEMO_UNITS.names())


def demo_truth(seed: int = 7) -> pl.DataFrame:
    """Room and matter that the author had in mind for each unit; schema DEMO_TRUTH, order of demo_units."""
    return _frame(seed).select(DEMO_TRUTH.names())


def explicit_examples() -> list[ExplicitExample]:
    """Labels to set by hand after the migration, to show that they are kept."""
    return [ExplicitExample(_unit_id(e.matter, 0), e.room, e.hall, e.layer) for e in read_explicit()]


@cache
def _frame(seed: int) -> pl.DataFrame:
    units = [unit for bank in read_banks() for unit in _bank_units(bank, seed)]
    return pl.DataFrame(units, schema=DEMO_UNITS | DEMO_TRUTH, orient="row").sort("created_at", "unit_id")


def _bank_units(bank: Bank, seed: int) -> list[_Unit]:
    grammar = Grammar(read_slots(), bank.people)
    seen: set[str] = set()
    return [
        unit for matter in read_matters() if matter.bank is bank for unit in _matter_units(matter, grammar, seen, seed)
    ]


def _matter_units(matter: Matter, grammar: Grammar, seen: set[str], seed: int) -> Iterator[_Unit]:
    """Units of one matter; each matter has a generator of its own, so that a new one changes no other."""
    rng = random.Random(f"{seed}/{matter.bank.id}/{matter.room}/{matter.id}")  # noqa: S311 - no secret
    since, month = _past(matter, rng)
    for i, (frame, follows) in enumerate(_wordings(matter, rng)):
        when = _moment(rng, since, matter)
        people = rng if matter.verbatim else random.Random(f"{matter.id}/{frame}")  # noqa: S311
        fill = partial(grammar.fill, rng=rng, people=people, when=when, month=month)
        text = fill(f"{frame} {follows}".rstrip())
        for _ in range(0 if matter.verbatim else _TRIES):
            if text not in seen:
                break
            text = fill(f"{frame} {rng.choice(['', *matter.more])}".rstrip())
        seen.add(text)
        yield _unit(matter, i, text, when, rng)
        if matter.n > 1 and not matter.verbatim and not _FIRST_PERSON.search(text) and rng.random() < _ECHO_SHARE:
            yield _unit(
                matter, matter.n + i, rng.choice(_ECHOES).format(text), when, rng, days_later=rng.randint(1, 40)
            )


def _past(matter: Matter, rng: random.Random) -> tuple[date, int]:
    """Earliest day of the units, and the month of what they look back to; the month lies before the day."""
    if not uses_month((*matter.says, *matter.more)):
        return matter.since, 1
    span = (matter.until - matter.since).days
    looked_back = matter.since + timedelta(days=rng.randint(0, span // 3))
    return min(looked_back + timedelta(days=31), matter.until), looked_back.month


def _wordings(matter: Matter, rng: random.Random) -> Iterator[tuple[str, str]]:
    """``n`` pairs of a statement and what follows it: nothing, a detail, or another statement.

    Every statement is used before one comes twice.
    """
    says, more = list(matter.says), list(matter.more) or [""]
    rng.shuffle(says)
    rng.shuffle(more)
    for i in range(matter.n):
        is_repeat, chance = i >= len(says) and not matter.verbatim, rng.random()
        if chance < _DETAIL_SHARE:
            follows = more[i % len(more)]
        elif is_repeat and chance < _SECOND_SHARE and len(says) > 1:
            follows = says[(i + 1) % len(says)]
        else:
            follows = ""
        yield says[i % len(says)], follows


def _moment(rng: random.Random, since: date, matter: Matter) -> datetime:
    day = since + timedelta(days=rng.randint(0, (matter.until - since).days))
    minute = rng.randint(0, 24 * 60 - 1)
    if matter.bank.office_hours:
        day -= timedelta(days=max(0, day.weekday() - 4))
        minute = 8 * 60 + minute % (10 * 60)
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(minutes=minute)


def _unit(matter: Matter, number: int, text: str, when: datetime, rng: random.Random, *, days_later: int = 0) -> _Unit:
    bank = matter.bank
    if _FIRST_PERSON.search(text):
        fact_type = "experience"
    else:
        fact_type = "observation" if rng.random() < _OBSERVATION_SHARE else "world"
    return _Unit(
        unit_id=_unit_id(matter, number),
        bank_id=bank.id,
        text=text,
        context=rng.choice(bank.contexts),
        fact_type=fact_type,
        occurred_at=when,
        created_at=when + timedelta(days=days_later, minutes=rng.randint(1, 60 * 30)),
        tags=[*bank.tags, f"agent:{rng.choice(bank.agents)}"],
        room=matter.room,
        matter=matter.id,
    )


def _unit_id(matter: Matter, number: int) -> str:
    return str(uuid5(_NAMESPACE, f"{matter.bank.id}/{matter.room}/{matter.id}/{number}"))
