"""The guard that looks at labels as a whole."""

import json

import polars as pl

from rcll.frames import LABELS
from rcll.stages.classify import UNSUPPORTED
from rcll.stages.quality import QualityLimits, quality


def labels(*rows: tuple[str, str | None, str | None]) -> pl.DataFrame:
    """Labels from (room, rule, language)."""
    columns = {
        "unit_id": [str(n) for n in range(len(rows))],
        "room": [row[0] for row in rows],
        "hall": ["fact"] * len(rows),
        "room_rule": [row[1] for row in rows],
        "language": [row[2] for row in rows],
    }
    return pl.DataFrame({name: columns.get(name, [None] * len(rows)) for name in LABELS.names()}, schema=LABELS)


SKEWED = labels(
    ("auth", "a", "en"), ("auth", "a", "en"), ("auth", "a", "de"), ("api", "b", "en"), ("general", "g", None),
    ("general", None, UNSUPPORTED),
)  # fmt: skip


def test_shares_and_languages():
    """Shares are of all units; general by a rule is not undecided; languages are counted."""
    found = quality(SKEWED)
    assert (found.n_units, found.general, found.undecided) == (6, 2 / 6, 1 / 6)
    assert (found.largest_room, found.largest_share) == ("auth", 0.5)
    assert found.languages == {"en": 3, "de": 1, "none": 1, UNSUPPORTED: 1}
    assert (found.unsupported, found.changed) == (1 / 6, None)


def test_change_since_the_last_run():
    """Change is measured on the units known before, in room or hall."""
    previous = pl.DataFrame(
        {"unit_id": ["0", "1", "3", "x"], "room": ["auth", "tax", "api", "ui"], "hall": ["fact"] * 4}
    )
    assert quality(SKEWED, previous).changed == 1 / 3
    assert quality(SKEWED, previous.clear()).changed is None


def test_warnings_over_limits():
    """Each limit that is exceeded gives one sentence; the limits are the caller's."""
    previous = SKEWED.select("unit_id", "room", "hall").with_columns(hall=pl.lit("event"))
    strict = QualityLimits(general=0.1, largest_room=0.1, changed=0.1, unsupported=0.1)
    assert quality(SKEWED, previous).warnings == [
        "100% of the units known before change their room or hall (limit 20%)",
        "17% of the units are in a language without rules (limit 5%)",
    ]
    assert len(quality(SKEWED, previous, strict).warnings) == 4


def test_no_units():
    """Nothing to judge gives no warning."""
    found = quality(SKEWED.clear().lazy())
    assert (found.n_units, found.general, found.largest_room, found.warnings) == (0, 0.0, None, [])
    assert json.loads(json.dumps(found.as_dict()))["warnings"] == []
