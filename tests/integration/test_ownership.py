"""Explicit wins, field by field: a matrix of who set what and when, played on a real database."""

from rcll.store.adopt import preview_adoption
from rcll.store.ledger import clear_explicit, find_unit, set_explicit
from rcll.walk.adopt import adopt
from tests.integration.places import N_UNITS, fill, unit_id
from tests.integration.walks import Walk, migrated

UNIT = unit_id(0)


def _by_sql(walk, field, value, unit=UNIT):
    walk.do(f"UPDATE memory_units SET {field} = %s WHERE id = %s", value, unit)


def _by_rcll(walk, field, value, unit=UNIT):
    with walk.database.connect() as conn:
        set_explicit(conn, walk.tenant, [unit], **{field: value})


def _found(walk, unit=UNIT):
    with walk.database.connect() as conn:
        found = find_unit(conn, walk.tenant, unit)
    return found.room, found.room_source, found.hall


#: What a default is, what the rules of these tests say, what a person says, and what no taxonomy names.
VALUES = {
    "room": ("general", "auth", "tax", "Garage"),
    "hall": ("fact", "event", "decision", "Gossip"),
    "layer": (2, 2, 1, 7),
}
MOMENTS = ("before", "between", "after")
#: Who sets a value, what it is, and whether it stays.
CASES = (
    (_by_sql, "person", True),
    (_by_sql, "unknown", True),
    (_by_sql, "default", False),  # raw SQL that writes a default cannot be told from a restored backup
    (_by_sql, "unset", False),  # NULL hands a unit back
    (_by_rcll, "person", True),
    (_by_rcll, "default", True),  # the default, on purpose
    (_by_rcll, "rule", True),  # what the rules would say, on purpose
)


def _matrix():
    """(unit, field, who, when, value, stays), a unit for each."""
    every = [(field, *case, when) for field in VALUES for case in CASES for when in MOMENTS]
    for number, (field, by, what, stays, when) in enumerate(every):
        named = dict(zip(("default", "rule", "person", "unknown"), VALUES[field], strict=True))
        yield unit_id(number), field, by, when, named.get(what), stays


def test_who_set_what_and_when(walk):
    """Field by field: what somebody set stays through runs and new rules, the unit's other fields follow the rules.

    Set before, between and after runs, by raw SQL and through rcll: another value, one that no taxonomy names, the
    default, what the rules say anyway, NULL.
    """
    for moment, rules in zip(MOMENTS, ("T", "U", "V"), strict=True):
        for unit, field, by, when, value, _ in _matrix():
            if when == moment:
                by(walk, field, value, unit)
        walk.run("auth", rules=rules)
    walk.run("api", rules="W")
    followed = {"room": "api", "hall": "event", "layer": 2}
    for unit, field, by, when, value, stays in _matrix():
        with walk.database.connect() as conn:
            found = find_unit(conn, walk.tenant, unit)._asdict()
        wanted = followed | ({field: value} if stays else {})
        case = f"{field}={value} {by.__name__} {when}"
        assert {name: str(found[name]) for name in VALUES} == {name: str(each) for name, each in wanted.items()}, case
        sources = {name: found[f"{name}_source"] for name in VALUES}
        assert sources == dict.fromkeys(VALUES, "rule") | ({field: "explicit"} if stays else {}), case
    assert walk.plan("api", rules="W").is_empty()


#: A unit for each field that somebody sets.
SET_BY_HAND = {unit_id(0): ("room", "tax"), unit_id(2): ("hall", "decision"), unit_id(4): ("layer", 0)}


def _set_by_hand(walk):
    for unit, (field, value) in SET_BY_HAND.items():
        _by_rcll(walk, field, value, unit)


def _assert_only_they_stay(walk, room):
    """What was set by hand stands, the other fields of those units are the rules'."""
    for unit, (field, value) in SET_BY_HAND.items():
        assert walk.labels()[unit] == tuple(
            str(each) for each in ({"room": room, "hall": "event", "layer": 2} | {field: value}).values()
        )


def test_fields_belong_to_people_one_by_one(walk):
    """A hall set by hand stays; the room goes with the rules."""
    walk.run("auth")
    walk.do("UPDATE memory_units SET hall = 'decision' WHERE id = %s", UNIT)
    walk.run("api", rules="U")
    assert _found(walk) == ("api", "rule", "decision")


def test_archived_and_restored_unit_keeps_both(walk):
    """Invalidated and reverted by Hindsight, a unit keeps what rcll and what a person wrote, in every field."""
    walk.run("auth")
    _set_by_hand(walk)
    columns = "id, bank_id, document_id, text, event_date, fact_type, tags, room, hall, layer"
    for source, target in (("memory_units", "invalidated_memory_units"), ("invalidated_memory_units", "memory_units")):
        walk.do(f"INSERT INTO {target} ({columns}) SELECT {columns} FROM {source}")
        walk.do(f"DELETE FROM {source}")
    walk.run("api", rules="U")
    _assert_only_they_stay(walk, "api")


def test_units_of_a_document_retained_again_start_afresh(walk):
    """New ids know no history: the rules file them."""
    walk.run("auth")
    _by_rcll(walk, "room", "tax")
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
    _set_by_hand(walk)
    walk.do("UPDATE memory_units u SET room = b.room, hall = b.hall, layer = b.layer FROM backup b WHERE b.id = u.id")
    _, loaded = walk.run("api", rules="U")
    assert loaded.n_written == N_UNITS
    _assert_only_they_stay(walk, "api")
    assert walk.rows("SELECT DISTINCT room FROM memory_units WHERE id <> %s", UNIT) == [("api",)]


def test_backup_without_our_tables_is_frozen_until_adopted(walk):
    """Labels that nobody knows are explicit; adopted, the rules decide about them; those of rcll label stay."""
    walk.run("auth")
    walk.do("TRUNCATE rcll_labels, rcll_changes, rcll_runs")
    _by_rcll(walk, "room", "tax")
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
    _by_sql(walk, "room", "tax")
    with walk.database.connect() as conn:
        assert clear_explicit(conn, walk.tenant, [UNIT]) == [UNIT]
    walk.run("auth")
    assert _found(walk) == ("auth", "rule", "event")
    _by_sql(walk, "room", "tax")
    walk.run("auth")
    assert _found(walk)[1] == "explicit"
    with walk.database.connect() as conn:
        clear_explicit(conn, walk.tenant, [UNIT])
    walk.run("auth")
    assert _found(walk) == ("auth", "rule", "event")
