"""Keys of the service: which banks each may read or write, and a hash of its secret."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from rcll.store.catalog import Tenant
from rcll.store.connect import Connection
from rcll.store.pool import AsyncConnection
from rcll.store.sql import query


class Key(NamedTuple):
    """A key less its secret; ``may_read`` and ``may_write`` are patterns of bank names."""

    key_id: str
    name: str
    may_read: list[str]
    may_write: list[str]
    created_at: datetime
    revoked_at: datetime | None


class KeptKey(NamedTuple):
    """What tells whether a secret is right, and what it opens."""

    hash: str
    may_read: list[str]
    may_write: list[str]


def add_key(
    conn: Connection,
    tenant: Tenant,
    *,
    key_id: str,
    name: str,
    kept_hash: str,
    may_read: Sequence[str],
    may_write: Sequence[str],
) -> None:
    """Keep a new key."""
    banks = {"may_read": list(may_read), "may_write": list(may_write)}
    conn.execute(query("add_key", **tenant.names()), {"key_id": key_id, "name": name, "hash": kept_hash, **banks})


def list_keys(conn: Connection, tenant: Tenant) -> list[Key]:
    """All keys, the revoked among them, newest first."""
    return [Key(*row) for row in conn.execute(query("list_keys", **tenant.names())).fetchall()]


def revoke_key(conn: Connection, tenant: Tenant, key_id: str) -> bool:
    """Close a key for good; whether there was such a key, open."""
    return conn.execute(query("revoke_key", **tenant.names()), {"key_id": key_id}).fetchone() is not None


async def find_key(conn: AsyncConnection, tenant: Tenant, key_id: str) -> KeptKey | None:
    """An open key by its number."""
    row = await (await conn.execute(query("find_key", **tenant.names()), {"key_id": key_id})).fetchone()
    return KeptKey(*row) if row else None


async def has_keys(conn: AsyncConnection, tenant: Tenant) -> bool:
    """Whether the tenant has any open key."""
    row = await (await conn.execute(query("has_keys", **tenant.names()))).fetchone()
    return bool(row and row[0])
