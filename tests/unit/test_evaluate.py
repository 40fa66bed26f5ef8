"""Figures of agreement, against scikit-learn's."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support

from rcll.errors import RcllError
from rcll.frames import LABELS
from rcll.stages.evaluate import evaluate_labels

NAMES = st.sampled_from(["auth", "api", "tax", "general"])


def labels(rooms: list[str], *, layer: int = 2) -> pl.DataFrame:
    """Predicted labels, each decided by a rule unless general."""
    return pl.DataFrame(
        {
            "unit_id": [str(n) for n in range(len(rooms))],
            "room": rooms,
            "hall": ["fact"] * len(rooms),
            "layer": [layer] * len(rooms),
            "room_rule": [None if room == "general" else room for room in rooms],
            "hall_rule": [None] * len(rooms),
            "layer_rule": [None] * len(rooms),
            "room_tier": [None if room == "general" else "word" for room in rooms],
            "hall_tier": [None] * len(rooms),
            "language": ["en"] * len(rooms),
        },
        schema=LABELS,
    )


def truth(rooms: list[str], **more: list) -> pl.DataFrame:
    """True labels of the same units, in another order."""
    columns = {"unit_id": [str(n) for n in range(len(rooms))], "room": rooms, "hall": ["fact"] * len(rooms), **more}
    return pl.DataFrame(columns).reverse()


@given(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=40))
def test_figures_are_those_of_scikit_learn(pairs):
    """Accuracy, macro-F1 and each label's figures agree with the reference implementation."""
    true, found = [a for a, _ in pairs], [b for _, b in pairs]
    room = evaluate_labels(labels(found), truth(true)).room
    assert room.accuracy == pytest.approx(accuracy_score(true, found))
    assert room.macro_f1 == pytest.approx(f1_score(true, found, average="macro", zero_division=0))
    names = room.per_label["label"].to_list()
    precision, recall, f1, support = precision_recall_fscore_support(true, found, labels=names, zero_division=0)
    assert room.per_label["precision"].fill_null(0).to_list() == pytest.approx(precision.tolist())
    assert room.per_label["recall"].fill_null(0).to_list() == pytest.approx(recall.tolist())
    assert room.per_label["f1"].to_list() == pytest.approx(f1.tolist())
    assert room.per_label["n_true"].to_list() == support.tolist()
    assert room.confusion["n"].sum() == len(pairs)


def test_coverage_tiers_both_and_layers():
    """Coverage counts rules, tiers tell how far to trust them, layers count as exact or one off."""
    found = evaluate_labels(
        labels(["auth", "api", "general", "general"], layer=1),
        truth(["auth", "tax", "general", "api"], layer=[1, 2, 3, None]),
    )
    assert found.n_units == 4
    assert found.room.coverage == 0.5
    assert found.both == 0.5
    assert (found.layer_exact, found.layer_near) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert found.room.per_tier.rows() == [("word", 2, 0.5), (None, 2, 0.5)]
    assert found.languages.rows() == [("en", 4, 0.5, 1.0)]
    assert found.as_dict()["room"]["per_label"][0]["label"] == "api"


def test_truth_without_layers():
    """Where the truth names no layer, no figure is given for it."""
    assert evaluate_labels(labels(["auth"]), truth(["auth"])).layer_exact is None


@pytest.mark.parametrize("rooms", [[], ["auth", "api"]])
def test_units_without_prediction_are_refused(rooms):
    """An empty truth and a unit that was not labelled are errors, not figures."""
    with pytest.raises(RcllError, match="no predicted label"):
        evaluate_labels(labels(["auth"]), truth(rooms) if rooms else truth(["auth"]).clear())
