"""The rule of ownership, field by field, as a table of who set what when."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcll.frames import CHANGES, LABELS, UNITS
from rcll.stages.plan import PlanParams, is_foreign_layer, needs_text, plan_labels

PARAMS = PlanParams(taxonomy_hash="T")

UNKNOWN = {
    "unit_id": "u",
    "bank_id": "b",
    "text": "x",
    "text_hash": "h",
    "room": "general",
    "hall": "fact",
    "layer": "2",
    "is_known": False,
    "room_ours": False,
    "hall_ours": False,
    "layer_ours": False,
}
KNOWN = UNKNOWN | {
    "is_known": True,
    "room": "auth",
    "ledger_room": "auth",
    "ledger_hall": "fact",
    "ledger_layer": 2,
    "room_source": "rule",
    "hall_source": "rule",
    "layer_source": "rule",
    "ledger_text_hash": "h",
    "ledger_taxonomy_hash": "T",
    "is_held": False,
}
API = {"unit_id": "u", "room": "api", "hall": "event", "layer": 2, "room_rule": "r1", "hall_rule": "h1"}


def _units(*rows: dict) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=UNITS)


def _decide(unit: dict, label: dict | None = API) -> dict:
    labels = pl.DataFrame([label] if label else [], schema=LABELS)
    return plan_labels(_units(unit), labels, PARAMS).row(0, named=True)


@pytest.mark.parametrize(
    ("who", "unit", "label", "room", "source", "writes"),
    [
        ("nobody before the first run", UNKNOWN, API, "api", "rule", True),
        ("a fork left it unlabelled", UNKNOWN | {"room": None}, API, "api", "rule", True),
        ("a person before the first run", UNKNOWN | {"room": "tax"}, API, "tax", "explicit", True),
        ("a person, a room nobody knows", UNKNOWN | {"room": "Garage"}, API, "Garage", "explicit", True),
        ("rcll, and nothing changed", KNOWN, None, "auth", "rule", False),
        ("rcll, but the rules changed", KNOWN | {"ledger_taxonomy_hash": "S"}, API, "api", "rule", True),
        ("rcll, but the text was edited", KNOWN | {"text_hash": "i"}, API, "api", "rule", True),
        ("a person between two runs", KNOWN | {"room": "tax"}, None, "tax", "explicit", False),
        ("a person, then new rules", KNOWN | {"room": "tax", "text_hash": "i"}, API, "tax", "explicit", True),
        ("a restore of an older backup", KNOWN | {"room": "general"}, None, "auth", "rule", True),
        (
            "a restore of an older run of ours",
            KNOWN | {"room": "ui", "room_ours": True},
            None,
            "auth",
            "rule",
            True,
        ),
        ("raw SQL handed it back", KNOWN | {"room": None}, None, "auth", "rule", True),
    ],
)
def test_who_set_the_room(who, unit, label, room, source, writes):
    """A room that somebody set is kept and marked explicit; one of ours follows rules and ledger."""
    found = _decide(unit, label)
    assert (found["room"], found["room_source"]) == (room, source), who
    room_written = found["room"] != unit["room"]
    assert room_written == (writes and source == "rule"), who


@pytest.mark.parametrize(
    ("stored", "room", "source"),
    [
        ("tax", "tax", "explicit"),  # as recorded
        ("general", "tax", "explicit"),  # lost in a restore: comes back
        ("hr", "hr", "explicit"),  # the person changed their mind
        (None, "auth", "rule"),  # handed back with NULL
    ],
)
def test_recorded_explicit_labels(stored, room, source):
    """What was recorded as explicit stays, comes back after a restore, and can be handed back."""
    unit = KNOWN | {"room": stored, "ledger_room": "tax", "room_source": "explicit", "text_hash": "i"}
    found = _decide(unit, API | {"room": "auth"})
    assert (found["room"], found["room_source"]) == (room, source)


def test_explicit_default_is_kept():
    """Explicit 'general', recorded through rcll label, is not filed by a rule."""
    unit = KNOWN | {"room": "general", "ledger_room": "general", "room_source": "explicit", "text_hash": "i"}
    assert _decide(unit)["room"] == "general"


def test_fields_are_decided_one_by_one():
    """An explicit room does not freeze hall and layer."""
    found = _decide(UNKNOWN | {"room": "tax"})
    assert (found["room_source"], found["hall"], found["hall_source"]) == ("explicit", "event", "rule")
    assert (found["room_rule"], found["hall_rule"]) == (None, "h1")
    assert found["is_explicit"]


@pytest.mark.parametrize(
    ("stored", "layer", "source"),
    [
        ("L2", 2, "rule"),
        ("l2", 2, "rule"),
        (None, 2, "rule"),
        ("L0", 0, "explicit"),
        ("7", 7, "explicit"),
        ("x", None, "explicit"),
    ],
)
def test_layers_of_forks(stored, layer, source):
    """'L2' and 'l2' are the default; anything that is no layer was set by somebody and is kept."""
    found = _decide(UNKNOWN | {"layer": stored})
    assert (found["layer"], found["layer_source"]) == (layer, source)


@pytest.mark.parametrize(
    ("stored", "is_foreign"),
    [("L2", False), ("l2", False), ("0", False), (" 3 ", False), (None, False), ("", False), ("  ", False)]
    + [(layer, True) for layer in ("7", "L4", "x", "-1", "L22", "2.0")],
)
def test_values_that_are_no_layer_are_told(stored, is_foreign):
    """An unset layer is not foreign, whatever a fork writes for a real one."""
    frame = pl.DataFrame({"layer": [stored]}, schema={"layer": pl.String})
    assert frame.select(found=is_foreign_layer(pl.col("layer")))["found"].to_list() == [is_foreign]


def test_archived_layer_survives_new_rules():
    """The layer that a closet archived stays until the closet lets go."""
    unit = KNOWN | {"layer": "3", "ledger_layer": 3, "layer_source": "archived", "text_hash": "i"}
    found = _decide(unit)
    assert (found["layer"], found["layer_source"]) == (3, "archived")


def test_held_unit_is_left_alone_until_it_changes():
    """After an undo the next run does not do it again; an edited text ends the hold."""
    held = KNOWN | {"is_held": True, "room": "general", "ledger_room": "general"}
    assert not _decide(held, None)["is_changed"]
    assert _decide(held | {"text_hash": "i"})["room"] == "api"


def test_unfit_label_is_skipped_with_a_reason():
    """A fork's label of more than 64 characters is left alone, and said so."""
    found = _decide(UNKNOWN | {"room": "x" * 65})
    assert not found["is_changed"]
    assert found["skip"] == "label longer than 64 characters"


VALUES = st.sampled_from([None, "general", "auth", "api", "tax"])
UNIT = st.fixed_dictionaries(
    {
        "room": VALUES,
        "layer": st.sampled_from([None, "2", "L2", "0", "7", "3", "odd"]),
        "is_known": st.booleans(),
        "ledger_room": VALUES.filter(bool),
        "ledger_layer": st.integers(0, 3),
        "room_source": st.sampled_from(["rule", "explicit", "adopted"]),
        "layer_source": st.sampled_from(["rule", "explicit", "archived"]),
        "ledger_text_hash": st.sampled_from(["h", "i"]),
        "ledger_taxonomy_hash": st.sampled_from(["S", "T"]),
        "is_held": st.booleans(),
        "room_ours": st.booleans(),
    }
)


@given(UNIT)
def test_second_run_writes_nothing(unit):
    """After its changes are applied, the same comparison finds nothing to write, whatever came before."""
    before = KNOWN | unit
    if not before["is_known"]:
        before = {k: None if k.startswith("ledger_") or k.endswith("_source") else v for k, v in before.items()}
    first = plan_labels(_units(before), _labels_for(_units(before)), PARAMS).row(0, named=True)
    after = before | {"is_known": True, "ledger_text_hash": "h", "ledger_taxonomy_hash": "T"}
    if first["is_changed"]:
        after |= {f: first[f] for f in ("room", "hall")}
        after["layer"] = before["layer"] if first["layer"] is None else str(first["layer"])
        after |= {f"ledger_{f}": first[f] for f in ("room", "hall", "layer")}
        after |= {f"{f}_source": first[f"{f}_source"] for f in ("room", "hall", "layer")}
        after["is_held"] = before["is_held"] and not _units(before).select(needs_text("T")).item()
    second = plan_labels(_units(after), _labels_for(_units(after)), PARAMS).row(0, named=True)
    assert not second["is_changed"]


def _labels_for(frame: pl.DataFrame) -> pl.DataFrame:
    fresh = frame.select(needs_text("T")).item()
    return pl.DataFrame([API] if fresh else [], schema=LABELS)


def test_output_is_sorted_and_complete():
    """One row a unit, sorted by id, whatever the order of the input; the columns are the contract's."""
    frame = _units(UNKNOWN | {"unit_id": "b"}, UNKNOWN | {"unit_id": "a"})
    labels = pl.DataFrame([API | {"unit_id": "b"}, API | {"unit_id": "a"}], schema=LABELS)
    found = plan_labels(frame, labels, PARAMS)
    assert found["unit_id"].to_list() == ["a", "b"]
    assert found.columns[: len(CHANGES)] == CHANGES.names()
