"""Upkeep: what is right stays, what changed is refreshed or dropped, and twice is once."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rcll.stages.closets import CLOSET_MEMBERS, CLOSET_SOURCES, ClosetParams, group_units, plan_closets
from tests.unit.closet_rooms import MadeUpRoom

PARAMS = ClosetParams(threshold=40)
NOTHING = pl.DataFrame(schema=CLOSET_SOURCES)


def planned(room, existing, params=PARAMS):
    """The plan for a room as it is."""
    return plan_closets(existing, room.units, room.vectors, params)


def carry_out(plan, existing, room):
    """The sources that stand after a plan was carried out."""
    kept = existing.filter(pl.col("closet_id").is_in(list(plan.kept)))
    new = plan.new.select(closet_id=pl.format("new{}-{}", pl.lit(len(existing)), "group"), unit_id="unit_id")
    texts = pl.DataFrame({"unit_id": list(room.texts), "text_hash": list(room.texts.values())})
    written = pl.concat([plan.updated.select("closet_id", "unit_id"), new]).join(texts, on="unit_id")
    return pl.concat([kept, written]).select(CLOSET_SOURCES.names())


def settled(seed=0, **kwargs):
    """A room and the sources of its closets."""
    room = MadeUpRoom(seed=seed, **kwargs)
    return room, carry_out(planned(room, NOTHING), NOTHING, room)


def closet_of(existing, unit_id):
    """The closet that has a unit among its sources."""
    return existing.filter(pl.col("unit_id") == unit_id)["closet_id"].item()


def changed(plan):
    """Closets that a plan touches in any way."""
    return set(plan.updated["closet_id"]) | set(plan.dropped)


def test_first_plan_is_the_grouping():
    """Without closets the plan makes exactly the groups of group_units."""
    room = MadeUpRoom()
    plan = planned(room, NOTHING)
    assert plan.new.equals(group_units(room.units, room.vectors, PARAMS))
    assert plan.new["group"].n_unique() == 20
    assert (plan.kept, plan.dropped, plan.updated.is_empty()) == ((), (), True)
    assert plan.updated.schema == CLOSET_MEMBERS


def test_nothing_changed_nothing_planned():
    """A second plan over the same units keeps every closet and makes none."""
    room, existing = settled()
    plan = planned(room, existing)
    assert set(plan.kept) == set(existing["closet_id"])
    assert not changed(plan)
    assert plan.new.is_empty()


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_a_plan_carried_out_leaves_nothing_to_do(seed):
    """After any edits, deletions and additions: plan, carry out, plan again, and the second plan is empty."""
    room, existing = settled(n_matters=12, n_singles=30)
    rng = np.random.default_rng(seed)
    for unit_id in rng.choice(list(room.texts), 8, replace=False):
        if rng.random() < 0.5:
            del room.texts[unit_id]
        else:
            room.texts[unit_id] = room.single()
    for number in range(6):
        room.texts[f"new-{number}"] = room.tell(int(rng.integers(12))) if rng.random() < 0.7 else room.single()
    first = planned(room, existing)
    after = carry_out(first, existing, room)
    second = planned(room, after)
    assert not changed(second)
    assert second.new.is_empty()
    assert set(second.kept) == set(after["closet_id"])


def test_order_of_rows_changes_nothing():
    """Shuffled units and sources give the same plan."""
    room, existing = settled()
    room.texts["m000-9"] = room.tell(0)
    del room.texts["m001-0"]
    expected = planned(room, existing)
    order = np.random.default_rng(1).permutation(len(room.texts))
    shuffled = existing.sample(fraction=1, shuffle=True, seed=2)
    plan = plan_closets(shuffled, room.units[order], room.vectors[order], PARAMS)
    assert (plan.kept, plan.dropped) == (expected.kept, expected.dropped)
    assert plan.updated.equals(expected.updated)
    assert plan.new.equals(expected.new)


def test_growth_of_one_percent_leaves_the_others_alone():
    """After 1 % growth at least 95 % of the closets without a new member are untouched."""
    room, existing = settled(n_matters=60, n_singles=160)
    added = {f"n{i}": room.tell(i) if i % 2 else room.single() for i in range(4)}
    room.texts |= added
    plan = planned(room, existing)
    joined = set(plan.updated.filter(pl.col("unit_id").is_in(list(added)))["closet_id"])
    others = set(existing["closet_id"]) - joined
    assert len(others & set(plan.kept)) >= 0.95 * len(others)


def test_a_new_telling_joins_its_closet():
    """A new unit about a known matter joins that closet, which is updated with all its members; none is made."""
    room, existing = settled()
    room.texts["m007-9"] = room.tell(7)
    plan = planned(room, existing)
    assert set(plan.updated["closet_id"]) == {closet_of(existing, "m007-0")}
    assert set(plan.updated["unit_id"]) == {"m007-0", "m007-1", "m007-2", "m007-3", "m007-9"}
    assert plan.updated["rank"].to_list() == [0, 1, 2, 3, 4]
    assert plan.new.is_empty()


def test_leftovers_make_a_new_closet():
    """Several new units about a new matter become a new closet; the old ones are kept."""
    room, existing = settled()
    room.matters.append(room.words(7))
    room.texts |= {f"m020-{k}": room.tell(20) for k in range(4)}
    plan = planned(room, existing)
    assert set(plan.new["unit_id"]) == {f"m020-{k}" for k in range(4)}
    assert not changed(plan)


@pytest.mark.parametrize("change", ["edited", "deleted"])
def test_a_source_that_changed_leaves(change):
    """A closet that lost one of four sources is updated to the other three."""
    room, existing = settled()
    if change == "edited":
        room.texts["m003-1"] = room.single()
    else:
        del room.texts["m003-1"]
    plan = planned(room, existing)
    assert plan.updated["unit_id"].sort().to_list() == ["m003-0", "m003-2", "m003-3"]
    assert not plan.dropped


def test_a_source_that_was_corrected_may_come_back():
    """An edited source that is still about the matter stays a member, under its new text."""
    room, existing = settled()
    room.texts["m003-1"] = room.tell(3)
    plan = planned(room, existing)
    assert plan.updated["unit_id"].sort().to_list() == [f"m003-{k}" for k in range(4)]


def test_a_closet_that_lost_too_many_is_dropped():
    """With two sources left of four there is no closet any more."""
    room, existing = settled()
    del room.texts["m003-1"], room.texts["m003-2"]
    plan = planned(room, existing)
    assert plan.dropped == (closet_of(existing, "m003-0"),)
    assert plan.updated.is_empty()


def test_a_room_a_little_below_the_threshold_keeps_its_closets():
    """Below the threshold closets are kept and refreshed but none is made; far below all are dropped."""
    room, existing = settled()
    del room.texts["m000-0"]
    n_units = len(room.texts)
    plan = planned(room, existing, ClosetParams(threshold=n_units + 1))
    assert len(plan.kept) == 19
    assert len(plan.updated) == 3
    room.texts |= {f"x{i}": "the very same words in all of these" for i in range(4)}
    assert planned(room, existing, ClosetParams(threshold=n_units + 9)).new.is_empty()
    far = planned(room, existing, ClosetParams(threshold=2 * n_units))
    assert set(far.dropped) == set(existing["closet_id"])
    assert not far.kept


def test_a_small_room_without_closets_gets_none():
    """A room under the threshold has nothing to plan; neither has an empty one."""
    room = MadeUpRoom(n_matters=2, n_singles=10)
    assert planned(room, NOTHING).new.is_empty()
    room.texts = {}
    assert planned(room, NOTHING).new.is_empty()


def test_a_source_in_two_closets_stays_in_one():
    """A unit that two closets claim remains in the first of them; the other is updated or dropped."""
    room, existing = settled()
    ids = sorted([closet_of(existing, "m000-0"), closet_of(existing, "m001-0")])
    own = existing.filter(pl.col("closet_id") == ids[0])[0]
    twice = pl.concat([existing, own.with_columns(closet_id=pl.lit(ids[1]))])
    plan = planned(room, twice)
    assert ids[0] in plan.kept
    assert set(plan.updated["closet_id"]) == {ids[1]}
    assert own["unit_id"].item() not in set(plan.updated["unit_id"])
