"""Words for new rules."""

import polars as pl

from rcll.frames import TEXTS
from rcll.stages.classify import classify_units
from rcll.stages.suggest import SUGGESTIONS, SuggestParams, suggest_rules
from rcll.taxonomy import Rule, Taxonomy

TAXONOMY = Taxonomy((Rule("auth", "room", "auth", "token"), Rule("tax", "room", "tax", "invoice")))
DECIDED = ["the token of the server was renewed", "a token for the billing server", "the invoice of the office"] * 4
GARDEN = [
    "the tomatoes in the greenhouse need water",
    "water the tomatoes before noon",
    "the greenhouse was built by the neighbour",
    "tomatoes like the greenhouse",
    "tomatoes again",
    "the neighbour paid at the office",
]


def suggest(texts: list[str | None], **params) -> pl.DataFrame:
    """Suggestions for texts that the small taxonomy has labelled."""
    frame = pl.DataFrame({"unit_id": [f"u{n}" for n in range(len(texts))], "text": texts}, schema=TEXTS)
    return suggest_rules(frame, classify_units(frame, TAXONOMY), SuggestParams(**params))


def test_words_of_the_undecided_come_first():
    """The word that most undecided units share and no other has is first, with its units and examples."""
    found = suggest([*DECIDED, *GARDEN], min_units=1)
    first = found.row(0, named=True)
    assert first == {"word": "tomatoes", "n_units": 4, "n_decided": 0, "room": None, "examples": ["u12", "u13", "u15"]}
    assert not {"the", "token", "invoice"} & set(found["word"])


def test_a_word_is_proposed_for_units_that_no_better_word_catches():
    """'greenhouse' still adds a unit, 'water' adds none any more."""
    words = suggest([*DECIDED, *GARDEN], min_units=1)["word"].to_list()
    assert "greenhouse" in words
    assert "water" not in words


def test_of_words_that_say_the_same_the_pair_is_proposed():
    """Words that always stand together weigh the same: the pair is proposed, whatever the order of the texts."""
    texts = [
        "pole vault training",
        "a pole vault record",
        "the pole vault mat",
        "zinc roof",
        "a zinc roof",
        "zinc roof",
    ]
    for some in (texts, texts[::-1]):
        words = suggest([*DECIDED, *some])["word"].to_list()
        assert words == ["pole vault", "zinc roof"]


def test_a_word_that_others_have_too_names_their_room():
    """A word that decided units of one room hold says so: it may belong there."""
    found = suggest([*DECIDED, "the server is in the cellar", "a server with a fan", "that server again"], min_units=2)
    row = found.filter(pl.col("word") == "server").row(0, named=True)
    assert (row["n_units"], row["n_decided"], row["room"]) == (3, 8, "auth")


def test_nothing_to_propose():
    """Without enough undecided units, or without words, the answer is empty."""
    for texts in ([], DECIDED, [None, None, None], ["1 2", "3 4", "5 6"]):
        assert suggest(texts, min_units=2).schema == SUGGESTIONS
        assert suggest(texts, min_units=2).is_empty()


def test_large_banks_are_sampled_evenly():
    """Not more than max_texts are looked at, the same ones each time."""
    found = suggest([*DECIDED, *GARDEN] * 30, max_texts=100, min_units=1)
    assert found.equals(suggest([*DECIDED, *GARDEN] * 30, max_texts=100, min_units=1))
    assert found["n_units"].max() <= 100
