"""How an answer is put together, beside a naive loop."""

from hypothesis import given
from hypothesis import strategies as st

from rcll.stages.recall import ClosetHit, Filters, Hit, assemble


def _naive(units, closets, limit):
    """Take the nearest that is not covered, one after another, until nothing more fits; ids of results."""
    ranked = sorted([*units, *closets], key=lambda hit: (hit.distance, hit.id))
    chosen, covered = [], set()
    for hit in ranked:
        if hit.id in covered or len(chosen) >= limit:
            continue
        chosen.append(hit)
        if isinstance(hit, ClosetHit):
            covered |= set(hit.unit_ids)
            chosen = [each for each in chosen if each.id not in covered]
    return {hit.id for hit in chosen}


_distances = st.integers(0, 8).map(lambda n: n / 8)
_units = st.lists(_distances, max_size=12).map(lambda ds: [Hit(f"u{n}", d) for n, d in enumerate(ds)])
_closets = st.lists(
    st.tuples(_distances, st.sets(st.integers(0, 11).map(lambda n: f"u{n}"), max_size=5)), max_size=4
).map(lambda rows: [ClosetHit(f"c{n}", d, tuple(sorted(ids))) for n, (d, ids) in enumerate(rows)])


@given(_units, _closets, st.integers(1, 10))
def test_assembles_like_a_naive_loop(units, closets, limit):
    """The same results as taking the nearest one by one; never more than the limit; nothing shown twice."""
    slots = assemble(units, closets, limit)
    assert {slot.hit.id for slot in slots} == _naive(units, closets, limit)
    shown = [hit.id for slot in slots for hit in (slot.hit, *slot.folded)]
    assert len(shown) == len(set(shown))
    assert len(slots) <= limit
    assert slots == sorted(slots, key=lambda slot: slot.order)


@given(_units, _closets, st.integers(1, 10), st.randoms())
def test_order_of_input_does_not_matter(units, closets, limit, random):
    """Shuffled input, same answer."""
    expected = assemble(units, closets, limit)
    random.shuffle(units)
    random.shuffle(closets)
    assert assemble(units, closets, limit) == expected


def test_closet_stands_where_its_nearest_member_would():
    """A member nearer than its closet does not vanish behind worse results: the closet takes its place."""
    units = [Hit("a", 0.1), Hit("b", 0.2), Hit("c", 0.4)]
    slots = assemble(units, [ClosetHit("closet", 0.3, ("a", "c"))], 5)
    assert [slot.hit.id for slot in slots] == ["closet", "b"]
    assert [hit.id for hit in slots[0].folded] == ["a", "c"]


def test_filters_admit_labels():
    """Rooms and halls are alternatives among themselves, and the archive comes on request only."""
    filters = Filters(rooms=("auth", "api"), halls=("fact",))
    assert filters.admit("api", "fact", 2)
    assert not filters.admit("ui", "fact", 2)
    assert not filters.admit("api", "event", 2)
    assert not filters.admit("api", "fact", 3)
    assert Filters(max_layer=3).admit("ui", "event", 3)
