"""The order of updates: one tuple of a page at a time, the largest first, range after range."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from rcll.stages.rounds import PLACES, RoundParams, page_rounds

TUPLES = st.lists(st.tuples(st.integers(0, 6), st.integers(300, 2_000)), max_size=40)
LABEL_BYTES = 28


def _places(tuples: list[tuple[int, int]]) -> pl.DataFrame:
    rows = [(f"{number:03d}", block, size) for number, (block, size) in enumerate(tuples)]
    return pl.DataFrame(rows, schema=PLACES, orient="row")


def _aligned(size: int) -> int:
    return -(-size // 8) * 8


def _play_page(tuples: list[tuple[int, str]]) -> list[str]:
    """Ids of one page in the order of writing, decided tuple by tuple."""
    left = sorted(tuples, key=lambda each: (-each[0], each[1]))
    free = 8192 - 24 - sum(_aligned(size) + 4 for size, _ in left) - 4
    dead, is_full, order = 0, False, []
    while left:
        if is_full or free < 819:
            free, dead = free + dead, 0
        fitting = [each for each in left if _aligned(each[0] + LABEL_BYTES) <= free] if order else []
        size, unit_id = chosen = (fitting or left)[0]
        is_full = _aligned(size + LABEL_BYTES) > free
        free -= 0 if is_full else _aligned(size + LABEL_BYTES)
        dead += _aligned(size)
        left.remove(chosen)
        order.append(unit_id)
    return order


def _naive(places: pl.DataFrame, pages_per_range: int) -> list[tuple]:
    rows = []
    for number, block in enumerate(sorted(set(places["block"]))):
        tuples = [(row[2], row[0]) for row in places.iter_rows() if row[1] == block]
        rows += [(number // pages_per_range, rank, block, u) for rank, u in enumerate(_play_page(tuples))]
    return sorted(rows)


@given(TUPLES, st.integers(1, 5))
def test_order_is_that_of_the_naive_loop(tuples, pages_per_range):
    """Ranges hold so many pages, each step takes the largest tuple that has room, and every tuple comes once."""
    places = _places(tuples)
    found = page_rounds(places, RoundParams(pages_per_range, LABEL_BYTES))
    assert found.select("page_range", "rank", "block", "unit_id").rows() == _naive(places, pages_per_range)


@given(TUPLES)
def test_no_two_tuples_of_a_page_in_one_transaction(tuples):
    """Inside one round of one range a page occurs once, wherever a batch is cut, and the largest goes first."""
    places = _places(tuples)
    found = page_rounds(places, RoundParams(3))
    assert not found.select("page_range", "rank", "block").is_duplicated().any()
    first = found.filter(pl.col("rank") == 0).select("block", "tuple_bytes").rows()
    assert first == places.group_by("block").agg(pl.col("tuple_bytes").max()).sort("block").rows()


@given(TUPLES)
def test_order_of_the_input_does_not_matter(tuples):
    """Shuffled places give the same rounds."""
    places = _places(tuples)
    assert page_rounds(places, RoundParams()).equals(page_rounds(places.reverse(), RoundParams()))


def test_nothing_gives_nothing():
    """No places, no rounds."""
    assert page_rounds(_places([]), RoundParams()).columns == [*PLACES, "page_range", "rank"]
