"""Which banks may be linked: patterns, private banks, odd names, and thousands of banks."""

import time
from fnmatch import fnmatchcase

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rcll.stages.tunnels import allowed_banks

NAMES = st.lists(st.text("ab-[]*?é'", min_size=1, max_size=4), unique=True, max_size=6).map(sorted)
PATTERNS = st.text("ab-[]*?é'", min_size=1, max_size=4)


@given(names=NAMES, pairs=st.lists(st.tuples(PATTERNS, PATTERNS), max_size=3), private=st.lists(PATTERNS, max_size=2))
@settings(max_examples=300, deadline=None)
def test_agrees_with_a_loop(names, pairs, private):
    """Two banks may be linked exactly where a loop over all pairs and patterns says so."""

    def means(pattern, name):
        return pattern == name or fnmatchcase(name, pattern)

    found = allowed_banks(names, pairs, private)
    for i, one in enumerate(names):
        for j, other in enumerate(names):
            named = any((means(p, one) and means(q, other)) or (means(q, one) and means(p, other)) for p, q in pairs)
            hidden = any(means(p, one) or means(p, other) for p in private)
            assert found[i, j] == (i != j and named and not hidden)


def test_nothing_is_allowed_without_pairs():
    """No pattern, no bank."""
    assert not allowed_banks(["a", "b"], [], []).any()


@pytest.mark.parametrize(
    ("names", "pairs", "allowed"),
    [
        (["team-a", "team-b", "x"], [("team-*", "team-*")], [("team-a", "team-b")]),
        (["Bank", "bank"], [("bank", "*")], [("Bank", "bank")]),
        (["Bank", "bank", "other"], [("bank", "o*")], [("bank", "other")]),
        (["a[1]", "a1", "b"], [("a[1]", "b")], [("a1", "b"), ("a[1]", "b")]),
        (["it's", 'a "b"', "c/d=e"], [("it's", 'a "b"')], [('a "b"', "it's")]),
        (["müller", "山田", "x\ny"], [("山*", "x*")], [("x\ny", "山田")]),
        (["a", "b"], [("*", "*"), ("*", "*")], [("a", "b")]),
    ],
)
def test_names_are_data(names, pairs, allowed):
    """Quotes, brackets, line breaks and other scripts in names work; case counts; a name means itself."""
    names = sorted(names)
    found = allowed_banks(names, pairs, [])
    assert {(names[i], names[j]) for i, j in np.argwhere(found) if i < j} == {tuple(sorted(pair)) for pair in allowed}
    assert (found == found.T).all()


def test_private_banks_are_never_allowed():
    """A private bank has no partner, whatever the pairs say."""
    found = allowed_banks(["me", "team-a", "team-b"], [("*", "*")], ["me"])
    assert not found[0].any()
    assert found[1, 2]


def test_thousands_of_banks_are_fast():
    """5,000 banks and 300 pairs take well under the time of a loop over 12 million pairs of banks."""
    names = sorted(f"bank-{i:04d}" for i in range(5_000))
    pairs = [("bank-*", "bank-*")] + [(f"bank-{i:04d}", f"bank-{i + 1:04d}") for i in range(300)]
    start = time.monotonic()
    found = allowed_banks(names, pairs, ["bank-00*"])
    assert time.monotonic() - start < 5
    assert found.sum() == 4_900 * 4_899
