"""The least rights that a role needs to run rcll, as SQL for the owner of the tables."""

from functools import cache

from psycopg import sql

from rcll.errors import InputError
from rcll.resources import sql_dir
from rcll.store.catalog import Tenant
from rcll.store.connect import Connection
from rcll.store.sql import named_texts, trusted

_NAME_BYTES = 63  # PostgreSQL's NAMEDATALEN less its closing zero


def grants(conn: Connection, tenant: Tenant, role: str) -> str:
    """Statements that give a role what it needs in one tenant; nothing is executed.

    Args:
        conn: for its rules of quoting.
        tenant: migrated.
        role: need not exist yet.

    Raises:
        InputError: the tables are not there yet, or that is no name.
    """
    if not tenant.migrated:
        raise InputError(f"schema '{tenant.schema}' has no tables of rcll yet; run rcll migrate as the tables' owner")
    if not role or len(role.encode()) > _NAME_BYTES or "\0" in role:
        raise InputError(f"role '{role[:80]}' cannot be one; expected a name of 1 to {_NAME_BYTES} bytes")
    wanted = ["grants"]
    wanted += ["grants_archive"] if tenant.archive else []
    wanted += ["grants_vectors"] if tenant.vector_schema not in {"public", tenant.schema} else []
    names = tenant.names() | {"role": sql.Identifier(role), "vector_schema": sql.Identifier(tenant.vector_schema)}
    texts = [_texts()[name] + ";" for name in wanted] + [_texts()["grants_more"]]
    return "\n".join(trusted(text, **names).as_string(conn) for text in texts)


@cache
def _texts() -> dict[str, str]:
    return named_texts(sql_dir() / "grants.sql")
