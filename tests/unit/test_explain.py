"""Why a text is filed where it is."""

import json

import pytest

from rcll.stages.classify import ClassifyParams, classify_units
from rcll.stages.explain import explain_text
from rcll.taxonomy import Rule, Taxonomy, load_taxonomy
from rcll.taxonomy.dialect import translate
from rcll.walk.lines import texts_of

TAXONOMY = Taxonomy(
    (
        Rule("carousel", "room", "general", translate(r"\btoken"), unless=translate("oauth"), file="own.toml", line=3),
        Rule("auth", "room", "auth", translate(r"\boauth ?2?\b"), tier="specific", file="own.toml", line=4),
        Rule("api", "room", "api", translate(r"\bapi\b"), file="own.toml", line=5),
        Rule("warn", "hall", "warning", translate("<S>never"), file="own.toml", line=6),
    )
)


def test_rule_keyword_place_and_what_comes_next():
    """The rule that fired, its words, where they stand, the rules behind it and the one that was blocked."""
    text = "The API: the token is **OAuth 2**. Never share it, we use oauth2."
    explanation = explain_text(text, TAXONOMY)
    room, hall, layer = explanation.decisions
    assert (room.label, room.fired.rule, room.fired.keyword) == ("auth", "auth", "oauth 2")
    assert text[room.fired.start : room.fired.end] == "OAuth 2"
    assert [match.rule for match in room.next] == ["api"]
    assert [(match.rule, match.blocked_by) for match in room.blocked] == [("carousel", "oauth")]
    assert (hall.label, text[hall.fired.start : hall.fired.end]) == ("warning", "Never")
    assert (layer.label, layer.fired) == ("2", None)


def test_the_place_is_that_of_the_match_not_of_the_word():
    """A word that stands several times is shown where the rule matched it."""
    text = "We never stop; they never go. Never share it."
    fired = explain_text(text, TAXONOMY).decisions[1].fired
    assert (fired.start, fired.end) == (30, 35)


def test_lines_for_a_terminal():
    """Every line says one thing; the keyword is marked in its surroundings."""
    lines = explain_text("Please rotate the OAuth2 secret.", TAXONOMY).lines()
    assert lines[0] == "language: en" or lines[0].startswith("language: one without")
    assert "    rule auth (specific, own.toml:4) on 'oauth2'" in lines
    assert "    in: Please rotate the [OAuth2] secret." in lines
    assert "    no rule matches: the fallback" in lines


def test_values_for_json():
    """The explanation becomes plain values, without the text."""
    found = explain_text("Never show the OAuth2 secret", TAXONOMY).as_dict()
    assert "secret" not in json.dumps(found)
    assert found["decisions"][0]["fired"]["rule"] == "auth"


@pytest.mark.parametrize(
    "text", ["", "\x00" * 1000, "a" * 10_000_000, "lone \ud800 one", "never " * 2_000, "\n" * 5_000, "first " * 1_700]
)
def test_odd_texts_are_explained(text):
    """Nothing that a text holds breaks the explanation, or makes it slow."""
    assert len(explain_text(text, TAXONOMY).decisions) == 3


def test_a_long_sentence_is_explained_in_time():
    """Rules with gaps take quadratic time in Python; a long text without a match does not reach it."""
    gap = Taxonomy(tuple(Rule(f"r{n}", "room", "auth", translate(rf"\bfirst\b.*?\bthen{n}\b")) for n in range(100)))
    assert explain_text("first " * 1_700, gap).decisions[0].fired is None


def test_explanation_and_label_agree():
    """Explained labels are those of the run, by the shipped rules."""
    taxonomy = load_taxonomy()
    texts = [rule.hits[0] for rule in taxonomy.rules][::40]
    labels = classify_units(texts_of([{"text": text} for text in texts]), taxonomy, ClassifyParams(use_layers=True))
    for text, label in zip(texts, labels.to_dicts(), strict=True):
        explained = explain_text(text, taxonomy)
        assert explained.language == label["language"]
        assert [d.label for d in explained.decisions] == [label["room"], label["hall"], str(label["layer"])]
        fired = [None if d.fired is None else d.fired.rule for d in explained.decisions]
        assert fired == [label["room_rule"], label["hall_rule"], label["layer_rule"]]
