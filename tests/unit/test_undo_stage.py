"""What an undo gives back, as a table of who did what since the run."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcll.frames import CHANGES
from rcll.stages.undo import UNDO, plan_undo

WRITTEN = {
    "unit_id": "u",
    "bank_id": "b",
    "is_gone": False,
    "is_overwritten": False,
    "text_hash": "h",
    "old_room": "general",
    "old_hall": "fact",
    "old_layer": "2",
    "new_room": "auth",
    "new_hall": "fact",
    "new_layer": "2",
    "room": "auth",
    "hall": "fact",
    "layer": "2",
    "ledger_text_hash": "h",
    "ledger_taxonomy_hash": "T",
    "ledger_layer": 2,
    "room_source": "rule",
    "hall_source": "rule",
    "layer_source": "rule",
    "room_rule": "r",
}


def _decide(**unit) -> dict:
    return plan_undo(pl.DataFrame([WRITTEN | unit], schema=UNDO)).row(0, named=True)


@pytest.mark.parametrize(
    ("what", "unit", "outcome", "room"),
    [
        ("nothing", {}, "restore", "general"),
        ("the unit was deleted", {"is_gone": True, "room": None, "hall": None, "layer": None}, "gone", None),
        ("the text was edited", {"text_hash": "i"}, "edited", None),
        ("a person moved it by SQL", {"room": "tax"}, "relabelled", None),
        ("a person confirmed it", {"room_source": "explicit"}, "relabelled", None),
        ("a later run wrote it", {"is_overwritten": True}, "relabelled", None),
        ("an undo was cut off", {"room": "general"}, "already", None),
        ("the ledger row is gone", {"ledger_text_hash": None, "room_source": None}, "restore", "general"),
        ("it was unset before", {"old_room": None}, "restore", None),
    ],
)
def test_what_happened_since(what, unit, outcome, room):
    """Only what the run wrote and nobody has changed since is given back; the rest has a reason."""
    found = _decide(**unit)
    assert found["outcome"] == outcome, what
    if outcome == "restore":
        assert (found["room"], found["hall"], found["stored_layer"]) == (room, "fact", "2")
        assert (found["old_room"], found["room_source"], found["room_rule"]) == ("auth", "rule", None)


def test_fields_are_given_back_one_by_one():
    """A hall that a person has set since stays, and is explicit; the room goes back."""
    found = _decide(new_hall="event", hall="decision", hall_source="explicit")
    assert (found["outcome"], found["room"], found["hall"]) == ("restore", "general", "decision")
    assert (found["room_source"], found["hall_source"]) == ("rule", "explicit")


def test_sources_and_spelling_come_from_before():
    """Who had decided, by which rule, and how a fork spelled its layer."""
    found = _decide(old_layer="l1", new_layer="L2", layer="L2", was_room_source="adopted", was_layer_source="archived")
    assert (found["room_source"], found["layer_source"]) == ("adopted", "archived")
    assert (found["layer"], found["stored_layer"]) == (1, "l1")


LABEL = st.sampled_from([None, "general", "auth", "tax"])


@given(st.fixed_dictionaries({f"{when}room": LABEL for when in ("", "old_", "new_")}))
def test_undo_twice_is_undo_once(labels):
    """What was given back is not given back again, and nothing but the old label is ever written."""
    found = _decide(**labels)
    if found["outcome"] == "restore":
        assert found["room"] == labels["old_room"]
        assert _decide(**labels | {"room": found["room"]})["outcome"] == "already"


def test_output_is_what_the_loader_takes():
    """Columns and types of CHANGES, sorted by unit."""
    frame = pl.DataFrame([WRITTEN | {"unit_id": "b"}, WRITTEN | {"unit_id": "a"}], schema=UNDO)
    found = plan_undo(frame)
    assert found["unit_id"].to_list() == ["a", "b"]
    assert found.select(CHANGES.names()).schema == CHANGES
