"""Extractive summaries and titles: the sources' own words, in time order, without repeats."""

import re

import pytest

from rcll.errors import RcllError
from rcll.stages.closets import SummaryParams, extractive_summary, representatives
from rcll.stages.closets.summary import _sentences
from rcll.stages.closets.title import make_title

PARAMS = SummaryParams()
PUMP = [
    "The bilge pump of the tug Marta failed on 3 May. It had been serviced in March.",
    "A worn seal let water into the motor of Marta's bilge pump.",
    "Marta sails with a portable pump until the bilge pump is repaired.",
    "The bilge pump of the tug Marta got a new seal on 9 May.",
]


def test_quotes_are_the_sources_own_sentences_in_time_order():
    """Every sentence of the summary stands in a source that it names, and their order is that of the texts."""
    extract = extractive_summary(PUMP, PARAMS)
    quoted = re.split(r"(?<=\.) (?=[A-Z])", extract.summary)
    places = [(i, text.find(part)) for part in quoted for i, text in enumerate(PUMP) if part in text]
    assert places == sorted(places)
    assert extract.used == sorted({i for i, _ in places})
    assert len(extract.used) >= 3


def test_title_is_a_sentence_about_what_the_texts_share():
    """A short whole sentence of the texts that names the shared matter, without its full stop."""
    title = extractive_summary(PUMP, PARAMS).title
    assert f"{title}." in " ".join(PUMP)
    assert "pump" in title
    assert len(title) <= PARAMS.title_chars


@pytest.mark.parametrize(
    ("texts", "title"),
    [
        (
            [f"Weekly release train of {day} done." for day in ("6 November", "1 January", "5 March 2025")],
            "Weekly release train of … done",
        ),
        (
            [
                f"{who} was rolled out to all yards on {n} May."
                for n, who in enumerate(("forage", "ingest", "tollgate"))
            ],
            "… was rolled out to all yards on …",
        ),
        (
            [
                "The disk of broker comb-2 was replaced on 28 November, after weeks of slow writes.",
                "The disk of broker comb-2 was replaced on 22 February, after weeks of slow writes.",
                "Look at the disk where a broker falls behind.",
            ],
            "The disk of broker comb-2 was replaced on …, after weeks of slow writes",
        ),
        (
            [
                "The disk of broker comb-2 was replaced on 28 November, after weeks of slow writes.",
                "Nobody had looked at comb-2.",
                "Look at the disk where a broker falls behind.",
            ],
            "The disk of broker comb-2 was replaced on 28 November, after weeks of slow writes",
        ),
        (["The gate is never opened on 3 May."] * 4, "The gate is never opened on 3 May"),
    ],
    ids=["dates", "names", "two-alike", "one-date", "copies"],
)
def test_title_carries_no_figure_of_a_single_line(texts, title):
    """What sets lines apart that read alike otherwise is no title of all: a blank stands for it."""
    assert extractive_summary(texts, PARAMS).title == title


def test_title_lists_terms_where_no_sentence_is_short_enough():
    """The shared phrase and name lead the title; nothing in it is missing from the texts."""
    title = extractive_summary(PUMP, SummaryParams(title_chars=30)).title
    assert title.startswith("Bilge pump")
    assert all(word.lower() in " ".join(PUMP).lower() for word in title.replace(",", "").split())


def test_of_sentences_that_say_the_same_the_latest_speaks():
    """A statement repeated with another figure is quoted once, as it reads last."""
    texts = [f"The gate of berth four closes at {hour} in the evening." for hour in ("eight", "nine", "ten")]
    extract = extractive_summary([*texts, "Nobody may park in front of berth four."], PARAMS)
    assert "closes at ten" in extract.summary
    assert extract.summary.count("closes at") == 1
    assert extract.used == [2, 3]


def test_bounds_are_kept():
    """No more sentences and characters than allowed; a huge sentence is cut at a word."""
    texts = [" ".join(f"word{n}{k}" for k in range(30)) + "." for n in range(40)] + ["x y " * 1_000_000]
    extract = extractive_summary(texts, PARAMS)
    assert len(extract.summary) <= PARAMS.max_chars
    assert len(extract.used) <= PARAMS.max_sentences
    assert len(extract.title) <= PARAMS.title_chars
    single = extractive_summary(["ab " * 400], PARAMS)
    assert single.summary.endswith("ab…")
    assert len(single.summary) <= PARAMS.max_sentence_chars


def test_texts_without_a_shared_word_are_named_by_a_sentence():
    """Where no two texts share a term the title is the first sentence quoted."""
    extract = extractive_summary(["Kettle boils.", "Dogs bark."], PARAMS)
    assert extract.title in {"Kettle boils.", "Dogs bark."}


@pytest.mark.parametrize("texts", [[], ["", "  \n"], ["---", "…"]])
def test_nothing_to_say(texts):
    """Texts without a letter are refused, with their number."""
    with pytest.raises(RcllError, match=f"{len(texts)} blank texts"):
        extractive_summary(texts, PARAMS)


@pytest.mark.parametrize(
    ("text", "n_sentences"),
    [
        ("Release 4.15.1 went out. Dr. Okafor signed it at 10.30 a.m. on Monday.", 2),
        ("See e.g. the manual. It is red!  Is it? Yes", 4),
        ("Der Kran steht. Ölwechsel ist fällig.", 2),
        ("冷藏柜坏了。明天修理。", 2),
        ("one line\nanother line\r\n\r\nthird", 3),
    ],
)
def test_sentences(text, n_sentences):
    """Titles, initials, versions and small letters do not end a sentence; other scripts and lines do."""
    summary = extractive_summary([text], SummaryParams(max_sentences=9, same_similarity=2, diversity=0))
    assert len(_sentences(text, 300)) == n_sentences
    assert summary.used == [0]


def test_other_languages():
    """Function words of other languages are no titles; texts without blanks still get one."""
    german = [
        "Die Bilgepumpe der Marta ist am Montag ausgefallen und wird getauscht.",
        "Wegen der Bilgepumpe darf die Marta nicht auslaufen.",
        "Die neue Bilgepumpe für die Marta ist bestellt.",
    ]
    assert set(make_title(german, 4).split(", ")) == {"Bilgepumpe", "Marta"}
    assert "Marta" in extractive_summary(german, PARAMS).title
    chinese = ["二号泊位的水泵坏了。", "二号泊位的水泵已经修好。"]
    assert extractive_summary(chinese, PARAMS).title


def test_titles_keep_identifiers_as_they_are_written():
    """An identifier is one term, is not capitalised and counts more than a word."""
    texts = ["The column stop_id is new.", "Fill stop_id first.", "Readers of stop_id: reports, column by column."]
    assert make_title(texts, 2) == "stop_id, column"


def test_forms_of_a_word_are_one_term():
    """Singular and plural are not listed side by side."""
    title = make_title(["A link expired.", "The link is dead.", "Links expire.", "Dead links are listed."], 4)
    assert len(re.findall("link", title, re.IGNORECASE)) == 1


def test_representatives_within_the_budget():
    """All members where they fit; else the first and whatever fits after it, repeats left out."""
    texts = [
        "The anchor winch is stuck in the mud.",
        "The anchor winch is stuck in mud.",
        "Tea at four.",
        "Rain on Sunday.",
    ]
    assert representatives(texts, 1_000) == [0, 1, 2, 3]
    assert representatives(texts, 65) == [0, 2, 3]
    assert representatives(texts, 55) == [0, 2]
    assert representatives(texts, 5) == [0]
    assert representatives([], 5) == []
