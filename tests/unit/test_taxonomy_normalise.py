"""What a rule sees of a text."""

import unicodedata

import hypothesis.strategies as st
import polars as pl
import pytest
from hypothesis import example, given

from rcll.taxonomy.language import detect_languages
from rcll.taxonomy.normalise import MAX_CHARS, UNUSUAL, normalise, normalise_texts
from rcll.taxonomy.single import language_of_text, normalise_text

READ_AS = [
    # text, as the rules see it (the line feeds round it left out)
    ("", ""),
    ("   \n ", ""),
    ("Never stop. We go! Why? So", "never stop.\nwe go!\nwhy?\nso"),
    ('He said "stop." Then he left.', 'he said "stop."\nthen he left.'),
    ('"Never do it," she said. (It broke.) "No"', 'never do it," she said.\nit broke.)\nno"'),
    ("See e.g. the docs, z. B. hier, Dr. Smith vs. Jones", "see e.g. the docs, z. b. hier, dr smith vs jones"),
    ("am 3. November um 5 Uhr, v1.2. Then", "am 3. november um 5 uhr, v1.2.\nthen"),
    ("Do NOT use REST API", "do\x02not use\x02rest\x02api"),
    ("NEVER do it: DON'T", "\x02never do it:\x02don't"),
    ("Stop. NEVER go (NOW)", "stop.\n\x02never go (\x02now)"),
    ("IDs, APIv2 and v2API stay", "ids, apiv2 and v2api stay"),
    ("НЕ трогать. ÜBER DÉJÀ", "\x02не трогать.\n\x02über\x02déjà"),
    ("1. Stop it. 2. Wait. 3) Go", "\x03\nstop it.\x03\nwait.\x03\ngo"),
    ("Steps: 1) stop, 2) start", "steps:\x03\nstop,\x03\nstart"),
    ("First (1) a, then (2) b", "first\x03\na, then\x03\nb"),
    ("In version 2. We left. Page 12) here", "in version 2.\nwe left.\npage 12) here"),
    ("- one\n* two\n+ three\n• four", "\x04\none\x04\ntwo\x04\nthree\x04\nfour"),
    ("We **never** `rm -rf` _any_ ~~old~~ *thing* a * b", "we never rm -rf any old thing a * b"),
    ("# Title\n\n> quote\n\n## Next", "title\nquote\nnext"),
    ("```python\nprint(1)\n```\nDone", "print(1)\ndone"),
    ("[the docs](https://a.b/token?x=1) and https://x.y/z, www.a.b", "the docs and \x05 \x05"),
    ("| a | b |\n|---|---|\n| c | d |", "a b\nc d"),
    ("wrapped\nline here\nNew line", "wrapped line here\nnew line"),
    ("\x1b[31mError\x1b[0m: \x1b]0;title\x07bad", "error: bad"),
    ("don\u2019t \u201cquote\u201d \u2013 dash\u2014clause", 'don\'t "quote" - dash - clause'),
    ("zero\u200bwidth soft\u00adhyphen \ufeffbom", "zerowidth softhyphen bom"),
    ("NFD cafe\u0301, full １２ ﬁne", "\x02nfd café, full 12 fine"),
    ("İzmir ve Istanbul", "izmir ve istanbul"),
    ("今天部署。不要重启！好吗？", "今天部署.\n不要重启!\n好吗?"),
    ("key " + "aGVsbG8" * 20 + " end", "key end"),
    ("a\x00b\x01c\td\r\nE", "a b c d\ne"),
    ("🙂 ok", "🙂 ok"),
]


@pytest.mark.parametrize(("text", "seen"), READ_AS)
def test_texts_are_read_as_documented(text, seen):
    """Each step of the normalisation does what docs/taxonomy.md says."""
    assert normalise_texts(pl.Series([text]))[0] == f"\n{seen}\n".replace("\n\x03\n", "\x03\n").replace(
        "\n\x04\n", "\x04\n"
    )


def test_null_reads_as_empty():
    """A missing text is no error."""
    assert normalise_texts(pl.Series([None], dtype=pl.String)).to_list() == ["\n\n"]


def test_only_the_beginning_of_a_long_text_is_read():
    """Ten megabytes cost as much as the first page, and 10 MB of one letter leave nothing."""
    words = "word " * 2_000_000
    seen = normalise_texts(pl.Series([words, "a" * 10_000_000, "\x00" * 1_000_000]))
    assert seen.str.len_chars().to_list() == [MAX_CHARS + 1, 2, 2]


PIECES = st.sampled_from(
    [
        "a",
        "B",
        "NOT",
        "DO",
        " ",
        "  ",
        "\n",
        ". ",
        "! ",
        "1. ",
        "2) ",
        "(1) ",
        "- ",
        "* ",
        "**",
        "`",
        "```",
        "_x_",
        "#",
        "> ",
        "|",
        "http://a.b/c",
        "[t](u)",
        "\u2019",
        "\u200b",
        "é",
        "e\u0301",
        "İ",
        "。",
        "\x00",
        "\x1b[0m",
        "vs. ",
        ":1. ",
        "2. ",
        "ÜBER",
        "Vs. ",
        "x" * 61,
        '"',
        "(",
        "e.g. ",
        "ß",
        "НЕ",
    ]
)


@given(st.lists(st.one_of(st.lists(PIECES, max_size=12).map("".join), st.none(), st.text(max_size=20)), min_size=1))
@example(["\x85", "\u2028", "\xa0x\xa0", "a\u0301", "ﬁ", "\ud7ff"])
def test_the_quick_way_gives_the_same(texts):
    """Leaving out steps where a search finds nothing to do changes nothing."""
    series = pl.Series(texts, dtype=pl.String)
    whole = series.to_frame("text").select(normalise(pl.col("text"))).to_series()
    assert normalise_texts(series).to_list() == whole.to_list()


@given(st.one_of(st.lists(PIECES, max_size=12).map("".join), st.text(max_size=20)))
@example("ab. C d\n\nNEVER — do it\n- x")
@example("le chat et la souris")
@example("пошёл и съел 中文")
def test_one_text_is_read_as_many_are(text):
    """Python's way for a single text gives what Polars gives for many, and finds the same language."""
    line = normalise_texts(pl.Series([text]))[0]
    assert normalise_text(text) == line
    assert language_of_text(line) == detect_languages(pl.Series([line]))[0]


def test_usual_characters_are_stable():
    """No character that skips Unicode normalisation is changed by it, alone or behind another one."""
    every = pl.Series([chr(c) for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000])
    usual = every.filter(~every.str.contains(UNUSUAL)).to_list()
    assert len(usual) > 20_000
    for char in usual:
        assert unicodedata.normalize("NFKC", char) == char
        assert unicodedata.normalize("NFKC", "a" + char) == "a" + char
        assert unicodedata.category(char) not in {"Mn", "Cf"}
