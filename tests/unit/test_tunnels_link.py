"""The tunnel stage as a whole: order, boilerplate, broken vectors, banks of any number and name."""

import json
from collections import Counter

import numpy as np
import polars as pl
import pytest

from rcll.errors import RcllError
from rcll.frames import LINK_UNITS, TUNNELS
from rcll.stages.tunnels import TunnelParams, link_units

MATTERS = [
    ("Broker kafka-7 lags 40 minutes on Mondays.", "On Mondays kafka-7 is 40 minutes behind."),
    ("The lease of hall 12 in Porto ends in May.", "Hall 12 in Porto is leased until May."),
    ("Invoice 8841 was paid twice by Hedda.", "Hedda paid invoice 8841 two times."),
    ("Grafana at orchard.example needs 9 GB of memory.", "orchard.example: Grafana takes 9 GB of memory."),
]


def room(units, vectors=None):
    """A frame of (bank, text), ids by place, and vectors; random ones by default, texts of a matter alike."""
    rng = np.random.default_rng(5)
    frame = pl.DataFrame(
        {
            "unit_id": [f"{i:06d}" for i in range(len(units))],
            "bank_id": [bank for bank, _ in units],
            "text": [text for _, text in units],
        },
        schema=LINK_UNITS,
    )
    found = rng.standard_normal((len(units), 64)) if vectors is None else vectors
    return frame, found.astype(np.float32)


def two_banks(one="alice", other="bob"):
    """Four common matters among sixty units that say something else; the vectors know the matters."""
    rng = np.random.default_rng(1)
    units = [(bank, text) for pair in MATTERS for bank, text in zip((one, other), pair, strict=True)]
    words = iter("".join(letters) for letters in rng.choice(list("abcdefghijklmnop"), (360, 8)))
    units += [((one, other)[i % 2], " ".join(next(words) for _ in range(6))) for i in range(60)]
    vectors = rng.standard_normal((len(units), 64))
    for i in range(len(MATTERS)):
        vectors[2 * i + 1] = vectors[2 * i] + 0.3 * rng.standard_normal(64)
    return room(units, vectors)


def every(units):
    """Each bank with each other."""
    return ~np.eye(units["bank_id"].n_unique(), dtype=bool)


def ends(tunnels):
    """Pairs of unit ids."""
    return set(tunnels.select("source_unit_id", "target_unit_id").iter_rows())


EXPECTED = {(f"{2 * i:06d}", f"{2 * i + 1:06d}") for i in range(len(MATTERS))}


def test_common_matters_are_found_in_any_order():
    """The four matters and no more, with evidence; the same frame for shuffled units."""
    units, vectors = two_banks()
    tunnels = link_units(units, vectors, every(units), TunnelParams())
    assert ends(tunnels) == EXPECTED
    assert tunnels.schema == TUNNELS
    assert all(json.loads(evidence)["terms"] for evidence in tunnels["evidence"])
    order = np.random.default_rng(2).permutation(len(units))
    assert link_units(units[order], vectors[order], every(units), TunnelParams()).equals(tunnels)


@pytest.mark.parametrize("names", [("o'brien", "x/y"), ('"q"', "ä ö"), ("💡", "\u202eb"), ("a" * 300, "B")])
def test_names_of_banks_do_not_matter(names):
    """Quotes, slashes, unicode and length change no pair."""
    units, vectors = two_banks(*names)
    assert ends(link_units(units, vectors, every(units), TunnelParams())) == EXPECTED


def test_banks_that_may_not_be_linked_never_meet():
    """With nothing allowed nothing is found; one bank alone gives nothing."""
    units, vectors = two_banks()
    assert link_units(units, vectors, np.zeros((2, 2), bool), TunnelParams()).is_empty()
    alone = units.with_columns(bank_id=pl.lit("alice"))
    assert link_units(alone, vectors, np.zeros((1, 1), bool), TunnelParams()).is_empty()


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_broken_vectors_leave_copies_only(value):
    """NULL (NaN), infinite and zero vectors: no pair by likeness, word for word copies still are duplicates."""
    units, vectors = two_banks()
    vectors[:2] = value
    tunnels = link_units(units, vectors, every(units), TunnelParams())
    assert ends(tunnels) == EXPECTED - {("000000", "000001")}
    texts = units["text"].to_list()
    texts[1] = texts[0].upper()
    copied = link_units(units.with_columns(text=pl.Series(texts)), vectors, every(units), TunnelParams())
    (first,) = copied.filter(pl.col("source_unit_id") == "000000").iter_rows(named=True)
    assert (first["target_unit_id"], first["relationship"]) == ("000001", "duplicate")
    assert json.loads(first["evidence"])["similarity"] is None


def test_forty_identical_units_in_each_bank_are_one_tunnel_a_pair():
    """Boilerplate in three banks, forty times each, word for word: three tunnels."""
    units, vectors = room([(bank, "Have a nice day and thank you.") for bank in "abc" for _ in range(40)])
    tunnels = link_units(units, vectors, every(units), TunnelParams())
    pairs = Counter(tunnels.select("source_bank_id", "target_bank_id").iter_rows())
    assert pairs == {("a", "b"): 1, ("a", "c"): 1, ("b", "c"): 1}


def test_series_that_share_a_number_are_not_linked_by_it():
    """Lines of two logs that name the same ticket are one template each, not one matter each."""
    lines = [("a", f"Ticket {n} was opened by the portal.") for n in range(4000, 4040)]
    lines += [("b", f"Mail about ticket {n} left the queue.") for n in range(4000, 4040)]
    units, vectors = room(lines)
    assert len(link_units(units, vectors, every(units), TunnelParams())) <= 1


def test_five_thousand_banks_of_one_unit():
    """One sentence in all of them: at most three tunnels a unit, found without a loop over pairs of banks."""
    units, vectors = room([(f"bank-{i:04d}", "We all know this sentence.") for i in range(5_000)])
    tunnels = link_units(units, vectors, every(units), TunnelParams())
    of_unit = Counter(tunnels["source_unit_id"].to_list() + tunnels["target_unit_id"].to_list())
    assert max(of_unit.values()) == 3
    assert len(tunnels) == 7_500


def test_arrays_that_do_not_fit_are_refused():
    """Missing rows of embeddings, and a matrix of other banks."""
    units, vectors = two_banks()
    with pytest.raises(RcllError, match="67 embedding rows for 68 units"):
        link_units(units, vectors[1:], every(units), TunnelParams())
    with pytest.raises(RcllError, match="expected 2 banks both ways"):
        link_units(units, vectors, np.ones((3, 3), bool), TunnelParams())
