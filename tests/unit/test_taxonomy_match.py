"""The first rule that matches, found in every way."""

import hypothesis.strategies as st
import numpy as np
import polars as pl
from hypothesis import given, settings

from rcll.taxonomy import match
from rcll.taxonomy.candidates import flat_texts
from rcll.taxonomy.dialect import python, translate
from rcll.taxonomy.literals import flat, required, spelled_out
from rcll.taxonomy.match import Program, first_in_python
from rcll.taxonomy.model import Rule
from rcll.taxonomy.normalise import normalise_texts

WORDS = st.text("abc", min_size=1, max_size=3)
ATOMS = st.one_of(
    WORDS,
    WORDS.map(lambda w: rf"\b{w}\b"),
    WORDS.map(lambda w: rf"\b{w}\w*"),
    WORDS.map(lambda w: f"{w}?"),
    st.lists(WORDS, min_size=1, max_size=4).map(lambda ws: f"(?:{'|'.join(ws)})"),
    st.lists(WORDS, min_size=1, max_size=3).map(lambda ws: f"(?:{'|'.join(ws)})?"),
    st.sampled_from(
        ["[ab]", "[^ab]", r"\d", " ", "-", "é", "<S>", "<C>", "<CAPS>", "<NUM>", "<E>", r"\.", "b{2}", "(?:ab){1,2}"]
    ),
)
PATTERNS = st.one_of(
    st.lists(ATOMS, min_size=1, max_size=4).map("".join),
    st.tuples(WORDS, WORDS).map(lambda p: rf"\b{p[0]}\b.*?\b{p[1]}"),
    st.tuples(WORDS, WORDS).map(lambda p: rf"{p[0]}(?s:.){{0,4}}?{p[1]}"),
    st.lists(st.lists(ATOMS, min_size=1, max_size=2).map("".join), min_size=2, max_size=3).map("|".join),
).filter(
    lambda pattern: (
        python(translate(pattern)).search("") is None
        and all(m[0] for m in python(translate(pattern)).finditer("\na b c\n"))
    )
)
RULES = st.builds(
    lambda number, pattern, unless, within, times: Rule(
        id=f"r{number}",
        dimension="room",
        label="x",
        pattern=translate(pattern),
        unless=None if unless is None else translate(unless),
        within=within,
        times=times,
    ),
    st.integers(0, 999),
    PATTERNS,
    st.one_of(st.none(), st.none(), WORDS),
    st.one_of(st.none(), st.none(), st.integers(1, 12)),
    st.sampled_from([1, 1, 2, 3]),
)
LINES = st.lists(st.sampled_from([*"aabbcc  --.!é1", "AB", " CA ", "\n", "1. ", "- ", "ß", "日"]), max_size=24).map(
    "".join
)


def naive(rules: list[Rule], line: str) -> int:
    """One rule after another, as the documentation says; nothing shared with the engine but the patterns."""
    for index, rule in enumerate(rules):
        seen = line
        if rule.within is not None:
            start = line.index("\n") + 1
            stop = min(len(line), start + rule.within)
            while stop < len(line) and (
                (line[stop].isascii() and (line[stop].isalnum() or line[stop] == "_")) or line[stop] in "éß"
            ):
                stop += 1
            seen = line[: stop + 1]
        n_found = sum(1 for _ in python(rule.pattern).finditer(seen))
        if n_found >= rule.times and not (rule.unless and python(rule.unless).search(line)):
            return index
    return -1


@given(st.lists(RULES, min_size=1, max_size=8), st.lists(LINES, min_size=1, max_size=30))
@settings(max_examples=70)
def test_every_way_finds_what_a_naive_loop_finds(rules, texts):
    """One by one and all at once give the rule that a loop over rules gives, with unless and within."""
    lines = normalise_texts(pl.Series(texts))
    expected = [naive(rules, line) for line in lines]
    program = Program([tuple(rules)])
    assert [first_in_python(rules, line) for line in lines] == expected
    assert program.one_by_one(lines.to_list())[0].tolist() == expected
    assert program.all_at_once(lines)[0].tolist() == expected


@given(PATTERNS, st.lists(LINES, min_size=1, max_size=30))
@settings(max_examples=150)
def test_no_match_without_a_required_literal(pattern, texts):
    """Where a pattern matches, one of its required literals stands; else a match would be lost."""
    common = translate(pattern)
    literals = required(common)
    for line in normalise_texts(pl.Series(texts)):
        if literals is not None and python(common).search(line):
            assert any(literal in flat(line) for literal in literals)
            assert flat_texts(pl.Series([line, "é"]))[0] == flat(line)


@given(PATTERNS, st.lists(LINES, min_size=1, max_size=20))
@settings(max_examples=70)
def test_spelled_out_strings_are_all_there_are(pattern, texts):
    """What a pattern matches is among the strings that it is said to stand for."""
    common = translate(pattern)
    strings = spelled_out(common)
    for line in normalise_texts(pl.Series(texts)):
        found = python(common).search(line)
        if strings is not None and found:
            assert found[0] in strings


def test_required_literals_are_selective():
    """The literals are as long as the pattern allows, not single letters."""
    assert required(translate(r"\btokens?\b")) == {" token"}
    assert required(translate(r"\brate[ -]limit(?:er|ing)?\b")) == {" rate limit"}
    assert required(translate(r"<S>never \w+")) == {" never", "  never"}
    assert required(translate(r"\b(?:(?:ai|ui) tools?|\w+ ci|vat)\b")) == {" ai tool", " ui tool", " ci ", " vat "}
    assert required(translate(r"\d+ ?%|\bvat\b")) is None


def test_dimensions_are_independent():
    """Rules of two dimensions share one pass over the texts, each with its own first match."""
    rooms = tuple(Rule(id=w, dimension="room", label=w, pattern=w) for w in ("beta", "alpha"))
    halls = tuple(Rule(id=w + "2", dimension="hall", label=w, pattern=w) for w in ("alpha", "gamma"))
    found = Program([rooms, halls]).all_at_once(pl.Series(["\nalpha beta\n", "\ngamma\n", "\nx\n"]))
    assert [f.tolist() for f in found] == [[0, -1, -1], [0, 1, -1]]


def test_few_and_many_texts_take_different_ways(monkeypatch):
    """A few short texts go through Python, all others through Polars."""
    program = Program([(Rule(id="a", dimension="room", label="a", pattern="a"),)])
    taken: list[str] = []
    monkeypatch.setattr(program, "one_by_one", lambda _: taken.append("python"))
    monkeypatch.setattr(program, "all_at_once", lambda _: taken.append("polars"))
    program.first(pl.Series(["\na\n"]))
    program.first(pl.Series(["\n" + "a" * (match.SHORT + 1) + "\n"]))
    program.first(pl.Series(["\na\n"] * (match.FEW + 1)))
    program.first(pl.Series([], dtype=pl.String))
    assert taken == ["python", "polars", "polars", "polars"]


def test_no_rules_and_no_texts():
    """Nothing to search in, or nothing to search for, is no error."""
    assert [f.tolist() for f in Program([(), ()]).all_at_once(pl.Series(["\na\n"]))] == [[-1], [-1]]
    rules = (Rule(id="a", dimension="room", label="a", pattern="abc"),)
    assert Program([rules]).all_at_once(pl.Series([], dtype=pl.String))[0].dtype == np.int32
