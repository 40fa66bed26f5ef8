"""The demo's banks: enough of everything that the demo wants to show, and the same on every machine."""

import re

import polars as pl
import pytest

from rcll.demo import DEMO_TUNNEL_PAIRS, demo_truth, demo_units, explicit_examples
from rcll.demo.material import read_banks, read_matters
from rcll.demo.units import DEMO_TRUTH, DEMO_UNITS

ROOMS = {
    "auth", "pipeline", "infrastructure", "deployment", "schema", "api", "ui", "tax", "hr", "legal", "compliance",
    "monitoring", "agent", "general",
}  # fmt: skip


@pytest.fixture(scope="module")
def units() -> pl.DataFrame:
    """Units with what the author meant."""
    return demo_units().join(demo_truth(), on=["unit_id", "bank_id"], validate="1:1")


def test_schemas_are_as_promised():
    """Both frames have the documented columns, row for row about the same units."""
    assert demo_units().schema == DEMO_UNITS
    assert demo_truth().schema == DEMO_TRUTH
    assert demo_units()["unit_id"].equals(demo_truth()["unit_id"])


def test_same_seed_same_units():
    """A seed gives the same frame again, made afresh; another seed gives other texts under the same first ids."""
    from rcll.demo import units as module

    again = module._frame.__wrapped__(7).select(DEMO_UNITS.names())
    other = demo_units(seed=8)
    assert again.equals(demo_units())
    assert not other["text"].equals(demo_units()["text"])
    assert {e.unit_id for e in explicit_examples()} <= set(other["unit_id"])


def test_ids_are_unique_and_known(units):
    """No id stands twice, and a unit keeps its id from release to release."""
    assert units["unit_id"].n_unique() == units.height
    assert explicit_examples()[0].unit_id == "86e244ea-e4e5-575b-ad9c-dd9ca868793f"


def test_three_banks_of_a_real_size(units):
    """About 3,000 units: the platform bank is the largest, the back office the smallest."""
    sizes = dict(units.group_by("bank_id").len().sort("len", descending=True).iter_rows())
    assert 2700 <= units.height <= 3300
    assert list(sizes) == ["hollowcomb-platform", "hollowcomb-product", "hollowcomb-office"]
    assert min(sizes.values()) > 500


def test_every_room_is_meant_and_three_are_oversized(units):
    """All 14 rooms occur, and three rooms of the platform bank are far over the closet threshold of 200."""
    assert set(units["room"]) == ROOMS
    platform = units.filter(pl.col("bank_id") == "hollowcomb-platform")
    sizes = dict(platform.group_by("room").len().iter_rows())
    assert min(sizes[room] for room in ("monitoring", "deployment", "infrastructure")) > 280


def test_oversized_rooms_hold_dozens_of_narrow_matters(units):
    """In each oversized room at least twenty matters have 4 to 14 units (repeats by other sessions included)."""
    sizes = (
        units.filter(
            pl.col("bank_id") == "hollowcomb-platform",
            pl.col("room").is_in(["monitoring", "deployment", "infrastructure"]),
        )
        .group_by("room", "matter")
        .len()
        .filter(pl.col("len").is_between(4, 14))
        .group_by("room")
        .len()
    )
    assert sizes["len"].min() >= 20


def test_sentences_are_hand_written_and_many():
    """More than two thousand distinct sentences over more than two hundred matters, none written twice in a matter."""
    matters = read_matters()
    sentences = {text for matter in matters for text in (*matter.says, *matter.more)}
    assert len(sentences) > 2000
    assert sum(len(matter.says) >= 3 for matter in matters) > 200
    assert all(len(set(matter.says)) == len(matter.says) for matter in matters)


def test_matters_have_ids_of_their_own():
    """Within a bank no matter's id stands twice, since unit ids are made of it."""
    ids = [(matter.bank.id, matter.room, matter.id) for matter in read_matters()]
    assert len(set(ids)) == len(ids)


def test_every_slot_is_filled(units):
    """No brace is left in any text or context, and no text has stray blanks."""
    assert not units["text"].str.contains(r"[{}]|  |^\s|\s$").any()


def test_word_for_word_repeats_are_routine_only(units):
    """Exact duplicates inside a bank are few, and all of them routine notes."""
    routine = {matter.id for matter in read_matters() if matter.verbatim}
    repeated = units.filter(pl.struct("bank_id", "text").is_duplicated())
    assert set(repeated["matter"]) <= routine
    assert 50 < repeated.height < 250


def test_boilerplate_stands_in_all_banks(units):
    """Some sentences occur in every bank word for word, which must not make tunnels."""
    spread = units.group_by("text").agg(pl.col("bank_id").n_unique()).filter(pl.col("bank_id") == 3)
    assert 2 <= spread.height <= 10


def test_banks_know_of_the_same_matters_in_other_words(units):
    """At least twenty matters are known to two banks, and no statement of them is the same in both."""
    shared = units.filter(pl.col("room") != "general", ~pl.col("matter").str.starts_with("single"))
    known = shared.group_by("room", "matter").agg(pl.col("bank_id").unique())
    both = known.filter(pl.col("bank_id").list.len() > 1)
    assert both.height >= 20
    texts = shared.join(both.select("room", "matter"), on=["room", "matter"])
    assert texts.group_by("text").agg(pl.col("bank_id").n_unique())["bank_id"].max() == 1


def test_every_pair_of_banks_shares_something(units):
    """Each allowed pair names banks that exist and that know of at least three matters in common."""
    assert len(DEMO_TUNNEL_PAIRS) == 3
    for left, right in DEMO_TUNNEL_PAIRS:
        known = [
            set(
                units.filter(pl.col("bank_id") == bank, pl.col("room") != "general")
                .select("room", "matter")
                .iter_rows()
            )
            for bank in (left, right)
        ]
        assert len({m for m in known[0] & known[1] if not m[1].startswith("single")}) >= 3


def test_times_are_in_order_and_in_the_span(units):
    """Units are written after what they tell of, within the months of the story, and sorted by writing."""
    assert (units["created_at"] > units["occurred_at"]).all()
    assert units["occurred_at"].dt.year().is_between(2024, 2025).all()
    assert (
        demo_units()
        .select("created_at", "unit_id")
        .equals(demo_units().select("created_at", "unit_id").sort("created_at", "unit_id"))
    )


def test_office_writes_on_workdays(units):
    """Whoever keeps office hours tells of workdays, echoes aside; the platform works at all hours."""
    office = {bank.id for bank in read_banks() if bank.office_hours}
    hours = units.filter(pl.col("bank_id").is_in(office))["occurred_at"].dt.hour()
    assert hours.is_between(8, 17).all()
    assert units.filter(~pl.col("bank_id").is_in(office))["occurred_at"].dt.hour().n_unique() == 24


def test_dates_in_texts_are_those_of_the_event(units):
    """A daily note that names a date names its own."""
    notes = units.filter(pl.col("text").str.starts_with("Daily check done on"))
    named = notes["text"].str.extract(r"on (\d+ \w+),")
    assert notes.height > 2
    assert named.equals(notes["occurred_at"].dt.strftime("%-d %B"), null_equal=True)


def test_some_units_are_german_or_spanish(units):
    """A few units of each bank are not English."""
    words = {"german": r"\b(?:der|die|das|ist|nicht)\b", "spanish": r"\b(?:el|los|las|del|para)\b"}
    for pattern in words.values():
        assert 5 <= units["text"].str.contains(pattern).sum() <= 60


def test_some_units_warn(units):
    """Dangers that matter are among the units of each bank."""
    warnings = units.filter(pl.col("text").str.contains(r"(?i)\b(?:never|prohibited|do not|danger|hands off)\b"))
    assert warnings.group_by("bank_id").len()["len"].min() > 15


def test_first_person_is_experience(units):
    """What an agent tells of itself is of type experience; the three types of Hindsight occur."""
    own = units.filter(pl.col("text").str.contains(r"\bI\b"))
    assert set(own["fact_type"]) == {"experience"}
    assert set(units["fact_type"]) == {"world", "experience", "observation"}


def test_explicit_examples_exist(units):
    """Each explicit label names a unit, a room, a hall and a layer, and every layer occurs."""
    examples = explicit_examples()
    assert len(examples) >= 5
    assert {e.unit_id for e in examples} <= set(units["unit_id"])
    assert {e.room for e in examples} <= ROOMS
    assert {e.layer for e in examples} == {0, 1, 2, 3}


def test_texts_differ_in_length(units):
    """Short notes and long summaries stand side by side."""
    lengths = units["text"].str.len_chars()
    assert 80 < lengths.mean() < 160
    assert lengths.max() > 300
    assert lengths.min() < 25


def test_names_of_people_stay_in_their_bank(units):
    """Slots take people of the bank's own team."""
    notes = units.filter(pl.col("text").str.contains(r"^\w+ will look into it"))
    people = {name for bank in read_banks() if bank.folder == "platform" for name in bank.people}
    assert {re.match(r"\w+", text)[0] for text in notes["text"]} <= people
