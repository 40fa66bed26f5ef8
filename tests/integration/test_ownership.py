"""Explicit wins, field by field: a matrix of who set what and when, played on a real database."""

import pytest

from rcll.store.adopt import preview_adoption
from rcll.store.ledger import clear_explicit, find_unit, set_explicit
from rcll.walk.adopt import adopt
from tests.integration.places import N_UNITS, fill, unit_id
from tests.integration.walks import Walk, migrated

UNIT = unit_id(0)


@pytest.fixture
def walk(make_template, clone, tmp_path):
    """A migrated Hindsight-like database with two banks of 150 units."""

    def setup(database):
        fill(database, "hindsight")
        migrated(database)

    database = clone(make_template("load", setup))
    return Walk(database, migrated(database), tmp_path)


def _by_sql(walk, room):
    walk.do("UPDATE memory_units SET room = %s WHERE id = %s", room, UNIT)


def _by_rcll(walk, room):
    with walk.database.connect() as conn:
        set_explicit(conn, walk.tenant, [UNIT], room=room)


def _found(walk):
    with walk.database.connect() as conn:
        unit = find_unit(conn, walk.tenant, UNIT)
    return unit.room, unit.room_source, unit.hall


@pytest.mark.parametrize(
    ("by", "when", "room", "stays"),
    [
        (_by_sql, "before", "tax", True),
        (_by_sql, "between", "tax", True),
        (_by_sql, "after", "tax", True),
        (_by_sql, "between", "Garage", True),  # no room of the taxonomy
        (_by_sql, "before", "general", False),  # raw SQL that writes a default cannot be told apart
        (_by_sql, "between", None, False),  # NULL hands a unit back
        (_by_rcll, "before", "general", True),  # the default, on purpose
        (_by_rcll, "between", "general", True),
        (_by_rcll, "before", "auth", True),  # what the rules would say, on purpose
        (_by_rcll, "after", "tax", True),
    ],
)
def test_who_set_the_room_and_when(walk, by, when, room, stays):
    """A room that somebody set stays through runs and new rules; hall and layer follow the rules."""
    for moment, rules in (("before", "T"), ("between", "U"), ("after", "V")):
        if moment == when:
            by(walk, room)
        walk.run("auth", rules=rules)
    walk.run("api", rules="W")
    assert _found(walk) == ((room, "explicit", "event") if stays else ("api", "rule", "event"))
    assert walk.plan("api", rules="W").is_empty()


def test_fields_belong_to_people_one_by_one(walk):
    """A hall set by hand stays; the room goes with the rules."""
    walk.run("auth")
    walk.do("UPDATE memory_units SET hall = 'decision' WHERE id = %s", UNIT)
    walk.run("api", rules="U")
    assert _found(walk) == ("api", "rule", "decision")


def test_archived_and_restored_unit_keeps_both(walk):
    """Invalidated and reverted by Hindsight, a unit keeps what rcll and what a person wrote."""
    walk.run("auth")
    _by_rcll(walk, "tax")
    columns = "id, bank_id, document_id, text, event_date, fact_type, tags, room, hall, layer"
    for source, target in (("memory_units", "invalidated_memory_units"), ("invalidated_memory_units", "memory_units")):
        walk.do(f"INSERT INTO {target} ({columns}) SELECT {columns} FROM {source} WHERE id = %s", UNIT)
        walk.do(f"DELETE FROM {source} WHERE id = %s", UNIT)
    walk.run("api", rules="U")
    assert _found(walk) == ("tax", "explicit", "event")


def test_units_of_a_document_retained_again_start_afresh(walk):
    """New ids know no history: the rules file them."""
    walk.run("auth")
    _by_rcll(walk, "tax")
    text = "INSERT INTO memory_units (bank_id, text) SELECT bank_id, text || ' again' FROM memory_units WHERE id = %s"
    walk.do(text, UNIT)
    walk.do("DELETE FROM memory_units WHERE id = %s", UNIT)
    walk.run("auth")
    assert walk.rows("SELECT room FROM memory_units WHERE text LIKE '%% again'") == [("auth",)]


def test_older_backup_beside_our_tables(walk):
    """A restore brings older labels back: ours are filed again as the ledger says, and explicit ones come back."""
    walk.run("auth")
    walk.do("CREATE TABLE backup AS SELECT id, room, hall, layer FROM memory_units")
    walk.run("api", rules="U")
    _by_rcll(walk, "tax")
    walk.do("UPDATE memory_units u SET room = b.room, hall = b.hall, layer = b.layer FROM backup b WHERE b.id = u.id")
    _, loaded = walk.run("api", rules="U")
    assert loaded.n_written == N_UNITS
    assert _found(walk) == ("tax", "explicit", "event")
    assert walk.rows("SELECT DISTINCT room FROM memory_units WHERE id <> %s", UNIT) == [("api",)]


def test_backup_without_our_tables_is_frozen_until_adopted(walk):
    """Labels that nobody knows are explicit; adopted, the rules decide about them; those of rcll label stay."""
    walk.run("auth")
    walk.do("TRUNCATE rcll_labels, rcll_changes, rcll_runs")
    _by_rcll(walk, "tax")
    _, loaded = walk.run("api")
    assert loaded.n_written == 0
    assert _found(walk)[:2] == ("tax", "explicit")
    with walk.database.connect() as conn:
        preview = preview_adoption(conn, walk.tenant, "alice")
    assert [tuple(label) for label in preview] == [("room", "auth", 149), ("hall", "event", 150)]
    assert adopt(walk.place, ["alice"]) == {"alice": 150}
    walk.run("api")
    assert walk.rows("SELECT bank_id, room, count(*) FROM memory_units GROUP BY 1, 2 ORDER BY 1, 2") == [
        ("alice", "api", 149),
        ("alice", "tax", 1),
        ("bob", "auth", 150),
    ]
    with walk.database.connect() as conn:
        assert preview_adoption(conn, walk.tenant, "alice") == []


def test_forks_labels_are_adopted(make_template, clone, tmp_path):
    """A fork's automatic labels are frozen by the first run, in its own spelling, and filed after adoption."""
    database = clone(make_template("fork_undo", lambda d: fill(d, "fork")))
    walk = Walk(database, migrated(database), tmp_path)
    walk.do("UPDATE memory_units SET room = 'misc', hall = 'note', layer = 'L1' WHERE bank_id = 'alice'")
    walk.do("UPDATE memory_units SET layer = '7' WHERE id = %s", UNIT)
    with walk.database.connect() as conn:
        preview = preview_adoption(conn, walk.tenant, "alice")
    assert [tuple(label) for label in preview] == [
        ("room", "misc", 150),
        ("layer", "1", 149),
        ("layer", "7", 1),
        ("hall", "note", 150),
    ]
    walk.run("auth")
    assert walk.labels()[UNIT] == ("misc", "note", "7")
    assert adopt(walk.place, ["alice"]) == {"alice": 150}
    walk.run("auth")
    assert set(walk.labels().values()) == {("auth", "event", "L2")}


def test_handed_back_label_follows_the_rules(walk):
    """Rcll label --clear also works on what raw SQL set and on what the ledger does not know."""
    _by_sql(walk, "tax")
    with walk.database.connect() as conn:
        assert clear_explicit(conn, walk.tenant, [UNIT]) == [UNIT]
    walk.run("auth")
    assert _found(walk) == ("auth", "rule", "event")
    _by_sql(walk, "tax")
    walk.run("auth")
    assert _found(walk)[1] == "explicit"
    with walk.database.connect() as conn:
        clear_explicit(conn, walk.tenant, [UNIT])
    walk.run("auth")
    assert _found(walk) == ("auth", "rule", "event")
