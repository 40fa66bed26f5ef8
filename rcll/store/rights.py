"""Before a run writes anything: may its role do all that the run does?"""

from rcll.errors import DatabaseError
from rcll.store.catalog import Tenant
from rcll.store.connect import Connection
from rcll.store.migrate import pending
from rcll.store.sql import query

#: Tables of ours that a run writes, as Tenant.names() calls them; of the last two it deletes nothing (sql/grants.sql).
_WRITTEN = ("ledger", "changes", "explicit", "closets", "closet_sources", "tunnels")
_KEPT = ("runs", "leases")


def refuse_lacking_rights(conn: Connection, tenant: Tenant) -> None:
    """Look whether this role may write what a run writes, and change the schema where migrations are pending.

    Raises:
        DatabaseError: it may not; the message names role and rights.
        MigrationError: see :func:`rcll.store.migrate.pending`.
    """
    names = {key: name.as_string(conn) for key, name in tenant.names().items()}
    units = {"units": names["units"], "schema": tenant.schema}
    if tenant.migrated:
        own = {
            "written": [names[key] for key in _WRITTEN],
            "kept": [names[key] for key in _KEPT],
            "migrations": names["migrations"],
        }
        _refuse(conn, conn.execute(query("lacking_to_write"), units | own).fetchall())
    if pending(conn, tenant):
        tables = [names["units"], *([names["archive"]] if tenant.archive else [])]
        _refuse(conn, conn.execute(query("lacking_to_migrate"), units | {"tables": tables}).fetchall())


def _refuse(conn: Connection, lacking: list[tuple[str]]) -> None:
    if lacking:
        raise DatabaseError(
            f"role '{conn.info.user}' lacks {'; '.join(right for (right,) in lacking)}; expected a role that may; "
            "nothing was written; rcll grants prints what a role needs, or let RCLL_DATABASE_URL name the tables' owner"
        )
