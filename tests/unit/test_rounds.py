"""The order of updates: one tuple of a page at a time, the largest first, range after range."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from rcll.stages.rounds import PLACES, RoundParams, page_rounds

TUPLES = st.lists(st.tuples(st.integers(0, 12), st.integers(100, 105)), max_size=60)


def _places(tuples: list[tuple[int, int]]) -> pl.DataFrame:
    rows = [(f"{number:03d}", block, size) for number, (block, size) in enumerate(tuples)]
    return pl.DataFrame(rows, schema=PLACES, orient="row")


def _naive(places: pl.DataFrame, pages_per_range: int) -> list[tuple]:
    """The same, tuple by tuple."""
    blocks = sorted(set(places["block"]))
    rows = []
    for number, block in enumerate(blocks):
        tuples = [row for row in places.iter_rows() if row[1] == block]
        for rank, row in enumerate(sorted(tuples, key=lambda row: (-row[2], row[0]))):
            rows.append((number // pages_per_range, rank, block, row[0]))
    return sorted(rows)


@given(TUPLES, st.integers(1, 5))
def test_order_is_that_of_the_naive_loop(tuples, pages_per_range):
    """Ranges hold so many pages, ranks go by size, and every tuple comes once."""
    places = _places(tuples)
    found = page_rounds(places, RoundParams(pages_per_range))
    assert found.select("page_range", "rank", "block", "unit_id").rows() == _naive(places, pages_per_range)


@given(TUPLES)
def test_no_two_tuples_of_a_page_in_one_transaction(tuples):
    """Inside one round of one range a page occurs once, wherever a batch is cut."""
    found = page_rounds(_places(tuples), RoundParams(3))
    assert not found.select("page_range", "rank", "block").is_duplicated().any()


@given(TUPLES)
def test_order_of_the_input_does_not_matter(tuples):
    """Shuffled places give the same rounds."""
    places = _places(tuples)
    assert page_rounds(places, RoundParams()).equals(page_rounds(places.reverse(), RoundParams()))
