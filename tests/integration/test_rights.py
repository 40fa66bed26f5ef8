"""A role without rights is told which, before anything is written."""

import pytest
from psycopg import sql

from rcll.errors import DatabaseError
from rcll.store.catalog import read_tenants
from rcll.store.rights import refuse_lacking_rights
from tests.integration.walks import migrated


def _grant(database, role, *grants):
    with database.connect() as conn:
        for grant in grants:
            conn.execute(sql.SQL("GRANT {} TO {}").format(sql.SQL(grant), sql.Identifier(role)))


def _refusal(role, database):
    with database.connect(user=role) as conn:
        (tenant,) = read_tenants(conn)
        with pytest.raises(DatabaseError) as refused:
            refuse_lacking_rights(conn, tenant)
    return str(refused.value)


READING = ("USAGE ON SCHEMA public", "SELECT ON ALL TABLES IN SCHEMA public")


def test_reader_cannot_migrate(role, database_of):
    """Where migrations are pending, the owner of the tables is named, for units and archive."""
    database = database_of("hindsight")
    _grant(database, role, *READING)
    message = _refusal(role, database)
    assert f"role '{role}' lacks membership in rcll, who owns memory_units" in message
    assert "who owns invalidated_memory_units" in message
    assert "nothing was written" in message


def test_reader_of_a_migrated_database_cannot_write(role, database_of):
    """Labels and our own tables are named one by one; what a role has is not."""
    database = database_of("hindsight")
    migrated(database)
    _grant(database, role, *READING, "UPDATE (room) ON memory_units", "INSERT, UPDATE, DELETE ON rcll_runs")
    message = _refusal(role, database)
    assert "UPDATE (hall) on memory_units; UPDATE (layer) on memory_units" in message
    assert "DELETE on rcll_labels" in message
    assert "UPDATE (room)" not in message
    assert "rcll_runs" not in message
