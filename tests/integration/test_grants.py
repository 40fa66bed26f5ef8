"""The rights that ``rcll grants`` prints are enough for every night, and not one of them is too many."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from rcll.errors import InputError, RcllError
from rcll.store.catalog import read_tenants
from rcll.store.grants import grants
from rcll.store.ledger import set_explicit
from rcll.store.oneline import one_line_errors
from rcll.store.rights import refuse_lacking_rights
from rcll.walk.undo import undo_run
from tests.integration.places import N_UNITS, fill, unit_id
from tests.integration.walks import Walk

ROLE = 'rcll "night"'


@pytest.fixture
def owned(walk, admin):
    """A migrated database, and a role that may do nothing yet."""
    database = walk.database
    quoted = ROLE.replace('"', '""')
    admin.execute(f'CREATE ROLE "{quoted}" LOGIN')
    yield database
    with database.connect() as conn:
        conn.execute(f'DROP OWNED BY "{quoted}"')
    admin.execute(f'DROP ROLE "{quoted}"')


def _statements(database):
    with database.connect() as conn:
        (tenant,) = read_tenants(conn)
        printed = grants(conn, tenant, ROLE)
    return [line for line in printed.splitlines() if line and not line.startswith("--")]


def _as_role(database, folder):
    visitor = type(database)(f"{database.url}&user=rcll%20%22night%22", is_embedded=False)
    with visitor.connect() as conn:
        (tenant,) = read_tenants(conn)
    return Walk(visitor, tenant, folder)


def _night(walk):
    with one_line_errors("the night"):
        run_id, loaded = walk.run()
        with walk.database.connect() as conn:
            set_explicit(conn, walk.tenant, [unit_id(3)], room="legal")
        assert loaded.n_written == N_UNITS
        return undo_run(walk.place, run_id)


def test_printed_rights_are_enough(owned, tmp_path):
    """A role with these and no others plans, applies, labels and undoes."""
    with owned.connect() as conn:
        for statement in _statements(owned):
            conn.execute(statement)
    walk = _as_role(owned, tmp_path)
    with walk.database.connect() as conn:
        refuse_lacking_rights(conn, walk.tenant)
    assert _night(walk).n_restored == N_UNITS


@pytest.mark.parametrize("column", ["text", "tags", "embedding", "updated_at", "bank_id"])
def test_units_are_out_of_reach(owned, tmp_path, column):
    """The role cannot change what is not ours, whatever rcll or its user tries."""
    with owned.connect() as conn:
        for statement in _statements(owned):
            conn.execute(statement)
    walk = _as_role(owned, tmp_path)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        walk.do(f"UPDATE memory_units SET {column} = {column}")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        walk.do("DELETE FROM memory_units")


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ("UPDATE (room, hall, layer)", "memory_units"),
        ("SELECT, INSERT, UPDATE ON", r"rcll_runs|rcll_leases"),
        ('"rcll_labels", ', "rcll_labels"),
        ('"public"."rcll_changes", ', "rcll_changes"),
        ("GRANT SELECT ON", "memory_units"),
        ("USAGE ON SCHEMA", "public"),
    ],
)
def test_missing_right_is_named(owned, tmp_path, missing, named):
    """Without one of them a night ends with one line that names the table, and nothing of the rest is in doubt."""
    with owned.connect() as conn:
        conn.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
        for statement in _statements(owned):
            if missing.startswith('"'):
                conn.execute(re.sub(r'"public"\.' + missing.removeprefix('"public".'), "", statement))
            elif missing not in statement:
                conn.execute(statement)
    with pytest.raises(RcllError, match=named) as refusal:
        _night(_as_role(owned, tmp_path))
    assert "\n" not in str(refusal.value)


def test_rights_before_the_tables_are_refused(make_template, clone):
    """What is not there cannot be granted; expect the command that makes it."""
    database = clone(make_template("bare", lambda database: fill(database, "hindsight")))
    with database.connect() as conn:
        (tenant,) = read_tenants(conn)
        with pytest.raises(InputError, match="run rcll migrate"):
            grants(conn, tenant, "night")


@pytest.mark.parametrize("role", ["", "x" * 64, "a\0b"])
def test_names_that_are_none_are_refused(owned, role):
    """Expect the limit in the message."""
    with owned.connect() as conn:
        (tenant,) = read_tenants(conn)
        with pytest.raises(InputError, match="1 to 63 bytes"):
            grants(conn, tenant, role)


def test_command_without_a_right_says_which(owned):
    """Whatever command meets the refusal first ends with one line and exit code 1; no traceback."""
    with owned.connect() as conn:
        for statement in _statements(owned):
            if "rcll_labels" not in statement:
                conn.execute(statement)
    url = f"{owned.url}&user=rcll%20%22night%22"
    done = subprocess.run(
        [Path(sys.executable).parent / "rcll", "label", unit_id(3), "--room", "auth"],
        env=os.environ | {"RCLL_DATABASE_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "permission denied for table rcll_labels" in done.stderr
