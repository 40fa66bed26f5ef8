"""sql/checks: silent on a palace in order, and each speaks up about the fault that it is for."""

import pytest

from rcll.resources import sql_dir
from rcll.store.catalog import read_tenants
from rcll.store.checks import run_checks
from rcll.store.migrate import migrate

FIRST, SECOND, THIRD = (f"00000000-0000-4000-8000-00000000000{n}" for n in (1, 2, 3))
HASH = "left(encode(sha256(convert_to(text, 'UTF8')), 'hex'), 32)"

PALACE = f"""
UPDATE memory_units SET room = 'infrastructure', hall = 'warning' WHERE id <> '{SECOND}';
INSERT INTO rcll_labels (unit_id, bank_id, room, hall, layer, room_source, hall_source, layer_source, text_hash)
SELECT id, bank_id, room, hall, layer, 'rule', 'rule', 'rule', {HASH} FROM memory_units;
INSERT INTO closets (id, bank_id, room, hall, summary, source_unit_ids, n_sources, n_read, source_hash)
VALUES ('{FIRST}', 'orchard', 'infrastructure', 'warning', 'The press.', ARRAY['{FIRST}'::uuid], 1, 1, 'h');
INSERT INTO closet_sources SELECT id, id, {HASH}, 0 FROM memory_units WHERE id = '{FIRST}';
INSERT INTO tunnels (id, source_unit_id, target_unit_id, source_bank_id, target_bank_id, relationship, method)
VALUES ('{FIRST}', '{FIRST}', '{THIRD}', 'orchard', 'harbour', 'same_concept', 'auto');
INSERT INTO rcll_runs (run_id, kind, status, finished_at) VALUES ('{FIRST}', 'reorganize', 'done', now());
INSERT INTO rcll_runs (run_id, kind, status) VALUES ('{SECOND}', 'reorganize', 'running');
"""

FAULTS = {
    "archive_lacks_labels": "ALTER TABLE invalidated_memory_units DROP COLUMN hall",
    "archived_without_closet": f"UPDATE rcll_labels SET layer_source = 'archived' WHERE unit_id = '{SECOND}'",
    "closet_source_differs": f"DELETE FROM memory_units WHERE id = '{FIRST}'",
    "closet_without_sources": "DELETE FROM closet_sources",
    "label_differs_from_ledger": f"UPDATE memory_units SET layer = 3 WHERE id = '{SECOND}'",
    "ledger_field_without_source": f"UPDATE rcll_labels SET hall_source = NULL WHERE unit_id = '{SECOND}'",
    "ledger_names_other_bank": f"UPDATE rcll_labels SET bank_id = 'harbour' WHERE unit_id = '{SECOND}'",
    "run_without_end": "UPDATE rcll_runs SET status = 'failed' WHERE finished_at IS NULL",
    "tunnel_inside_one_bank": f"""
        INSERT INTO tunnels (id, source_unit_id, target_unit_id) VALUES ('{SECOND}', '{FIRST}', '{SECOND}')""",
    "tunnel_touches_general": f"""
        UPDATE memory_units SET room = 'general' WHERE id = '{THIRD}';
        UPDATE rcll_labels SET room = 'general' WHERE unit_id = '{THIRD}'""",
}


@pytest.fixture
def palace(database_of, tenant_of):
    """A migrated Hindsight database in good order, and its tenant."""
    database = database_of("hindsight")
    migrate(database, tenant_of(database))
    with database.connect() as conn:
        conn.execute(PALACE)
    return database, tenant_of(database)


def test_every_check_has_its_fault():
    """Expect a fault below for each file of sql/checks."""
    assert FAULTS.keys() == {file.stem for file in (sql_dir() / "checks").glob("*.sql")}


@pytest.mark.parametrize(("check", "fault"), FAULTS.items())
def test_fault_is_found_by_its_check(palace, check, fault):
    """Expect no offence before the fault, and the one check afterwards, with a row."""
    database, tenant = palace
    with database.connect() as conn:
        assert run_checks(conn, tenant) == {}
        conn.execute(fault)
        offences = run_checks(conn, tenant)
    assert offences.keys() == {check}
    assert len(offences[check]) == 1


@pytest.mark.parametrize("change", ["text = 'Read anew.'", "bank_id = 'harbour', document_id = NULL", "room = 'api'"])
def test_every_change_of_a_source_is_found(palace, change):
    """Expect an edited source, and one in another bank or room, to be found; and the room to be free on request."""
    database, tenant = palace
    with database.connect() as conn:
        conn.execute("DELETE FROM tunnels")
        conn.execute("DELETE FROM rcll_labels")
        conn.execute(f"UPDATE memory_units SET {change} WHERE id = '{FIRST}'")
        assert run_checks(conn, tenant).keys() == {"closet_source_differs"}
        conn.execute("INSERT INTO rcll_explicit (id, kind, payload) VALUES (%s, 'closet', '{}')", (FIRST,))
        assert bool(run_checks(conn, tenant)) is ("room" not in change)


def test_explained_differences_are_no_offence(palace):
    """Expect explicit fields, units on hold, orphans of the ledger and explicit tunnels into general to pass."""
    database, tenant = palace
    with database.connect() as conn:
        conn.execute("UPDATE rcll_labels SET hall_source = 'explicit' WHERE unit_id = %s", (THIRD,))
        conn.execute("UPDATE memory_units SET hall = 'event' WHERE id = %s", (THIRD,))
        conn.execute("UPDATE rcll_labels SET is_held = true, room = 'api' WHERE unit_id = %s", (SECOND,))
        conn.execute("INSERT INTO rcll_labels (unit_id, bank_id) VALUES (gen_random_uuid(), 'orchard')")
        conn.execute(
            "INSERT INTO tunnels (id, source_unit_id, target_unit_id) VALUES (%s, %s, %s)", (SECOND, SECOND, THIRD)
        )
        assert run_checks(conn, tenant) == {}


@pytest.mark.parametrize("kind", ["specification", "fork", "tenants"])
def test_checks_run_on_every_kind(database_of, kind):
    """Expect an empty answer before and after migration, whatever types banks and layers have."""
    database = database_of(kind)
    with database.connect() as conn:
        for tenant in read_tenants(conn):
            assert run_checks(conn, tenant) == {}
            migrate(database, tenant)
        assert [run_checks(conn, tenant) for tenant in read_tenants(conn)] in ([{}], [{}, {}])
