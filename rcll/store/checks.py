"""Runs sql/checks: each returns the rows that break a rule of rcll, none where all is well."""

from typing import Any

from psycopg.rows import dict_row

from rcll.resources import sql_dir
from rcll.store.catalog import Tenant
from rcll.store.connect import Connection
from rcll.store.sql import trusted


def run_checks(conn: Connection, tenant: Tenant) -> dict[str, list[dict[str, Any]]]:
    """Offending rows by the name of the check that found them, in the order of the names; reads only.

    A tenant that lacks rcll's tables cannot offend and gives an empty answer.
    """
    if not tenant.has("ledger", "runs", "explicit", "closets", "closet_sources", "tunnels"):
        return {}
    offences: dict[str, list[dict[str, Any]]] = {}
    with conn.cursor(row_factory=dict_row) as cursor:
        for file in sorted((sql_dir() / "checks").glob("*.sql")):
            statement = trusted(file.read_text(encoding="utf-8"), **tenant.names())
            rows = cursor.execute(statement, {"schema": tenant.schema}).fetchall()
            if rows:
                offences[file.stem] = rows
    return offences
