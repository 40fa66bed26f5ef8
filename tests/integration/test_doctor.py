"""The doctor on real databases: a sound one, and one ailment after another."""

from uuid import uuid4

import pytest

from rcll.analyst.doctor import examine
from rcll.store.doctor import read_facts
from rcll.store.lease import hold_banks
from tests.integration.places import N_UNITS, unit_id
from tests.integration.walks import migrated


def _codes(walk):
    """Severity and count of each finding, by code."""
    facts = read_facts(walk.database, walk.tenant)
    found = examine(facts, rooms=("auth", "general"), halls=("event", "fact"))
    assert all(each.message and each.todo and each.schema == "public" for each in found)
    return {each.code: (each.severity, each.n) for each in found}


def test_sound_database(walk):
    """After a run nothing is found but the facts of the database."""
    walk.run()
    assert _codes(walk) == {"database": ("note", N_UNITS)}


@pytest.mark.parametrize(
    ("statement", "code", "severity", "n"),
    [
        ("UPDATE memory_units SET embedding = NULL", "missing_embeddings", "warning", N_UNITS),
        ("UPDATE memory_units SET text = ' \n' WHERE text = 'text 1'", "empty_units", "note", 1),
        ("UPDATE memory_units SET text = repeat('x', 200000) WHERE text = 'text 1'", "huge_units", "warning", 1),
        ("UPDATE memory_units SET text = 'same'", "duplicates", "warning", N_UNITS - 2),
        ("UPDATE memory_units SET room = 'Attic' WHERE text = 'text 1'", "unknown_rooms", "note", 1),
        ("DELETE FROM memory_units WHERE text = 'text 1'", "ledger_orphans", "note", 1),
        ("CREATE INDEX by_room ON memory_units (room)", "label_index", "warning", None),
        (
            "UPDATE rcll_labels SET bank_id = 'carol'",
            "ledger_names_other_bank",
            "broken",
            N_UNITS,
        ),
        ("UPDATE rcll_labels SET room_source = NULL", "ledger_field_without_source", "broken", N_UNITS),
        (
            "UPDATE rcll_migrations SET checksum = 'x' WHERE name LIKE '0001%'",
            "migrations",
            "broken",
            None,
        ),
        (
            """CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
               CREATE TRIGGER stamp BEFORE UPDATE ON memory_units FOR EACH ROW EXECUTE FUNCTION f()""",
            "trigger",
            "warning",
            None,
        ),
    ],
)
def test_ailment(walk, statement, code, severity, n):
    """Each thing that is wrong is found, with its severity and count."""
    walk.run()
    walk.do(statement)
    assert _codes(walk)[code] == (severity, n)


def test_vectors_of_several_lengths(walk):
    """Where the column takes any vector, several lengths are broken, and one is a warning."""
    walk.do("ALTER TABLE memory_units ALTER embedding TYPE vector")
    walk.tenant = migrated(walk.database)
    assert _codes(walk)["untyped_embeddings"] == ("warning", None)
    walk.do("UPDATE memory_units SET embedding = '[1,2,3]' WHERE id = %s", unit_id(0))
    assert _codes(walk)["mixed_dimensions"] == ("broken", N_UNITS)


def test_bank_without_vector_index(walk, monkeypatch):
    """A large bank needs a vector index of its own, or one of all banks."""
    monkeypatch.setattr("rcll.store.doctor.INDEXED_UNITS", 100)
    walk.do(
        "CREATE INDEX ON memory_units USING hnsw (embedding vector_cosine_ops)"
        " WHERE fact_type = 'world' AND bank_id = 'alice'"
    )
    facts = read_facts(walk.database, walk.tenant)
    assert facts.unindexed_banks == {"bob": 150}
    walk.do("CREATE INDEX ON memory_units USING hnsw (embedding vector_cosine_ops)")
    assert read_facts(walk.database, walk.tenant).unindexed_banks == {}


def test_lease_is_a_note(walk):
    """A run at work is no ailment."""
    with hold_banks(walk.database, walk.tenant, ["alice"], uuid4()):
        assert _codes(walk)["lease"] == ("note", None)


def test_database_that_rcll_never_touched(database_of, tenant_of):
    """Pending migrations are a warning, and looking changes nothing."""
    database = database_of("hindsight")
    facts = read_facts(database, tenant_of(database))
    found = examine(facts, rooms=(), halls=())
    assert {each.code for each in found} == {"database", "pending_migrations", "missing_embeddings"}
    assert not tenant_of(database).migrated
