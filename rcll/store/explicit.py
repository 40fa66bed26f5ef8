"""Tunnels and closets that somebody asked for: remembered apart, so that they outlive their ends.

A restore of a backup, or an invalidated unit, takes tunnels and closets along. The record names units only softly
and stays; once all ends exist again, the next run puts back what is missing. Who takes one away through rcll
takes its record away too (:func:`forget`).
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

import numpy as np
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from rcll.store.catalog import Tenant
from rcll.store.closets import WrittenCloset, write_closets
from rcll.store.connect import Connection, Database
from rcll.store.lease import Lease
from rcll.store.sql import query
from rcll.store.tunnels import tunnel_id

Kind = Literal["tunnel", "closet"]


class Explicit(NamedTuple):
    """What somebody asked for, and how it stands.

    ``payload["unit_ids"]`` are its ends: two of a tunnel, the sources of a closet by rank. ``banks`` are those in
    which they stand now. ``missing`` ends are gone, ``changed`` ones (of a closet) read differently.
    """

    id: str
    kind: Kind
    payload: dict[str, Any]
    created_at: datetime
    is_present: bool
    banks: list[str]
    missing: list[str]
    changed: list[str]

    @property
    def is_ready(self) -> bool:
        """Not there, and nothing hinders putting it back."""
        return not (self.is_present or self.missing or self.changed) and bool(self.banks)


class Restored(NamedTuple):
    """What came back, and what waits for an end that is missing or reads differently."""

    n_tunnels: int = 0
    n_closets: int = 0
    n_waiting: int = 0


def record_tunnel(conn: Connection, tenant: Tenant, source: str, target: str, relationship: str) -> str:
    """Remember a tunnel from unit to unit; returns its id. :func:`dig_explicit` makes it."""
    found = tunnel_id(source, target, relationship)
    _record(conn, tenant, "tunnel", found, {"unit_ids": [source, target], "relationship": relationship})
    return found


def record_closet(conn: Connection, tenant: Tenant, closet: WrittenCloset) -> None:
    """Remember a closet as written, so that it comes back word for word and no model is asked."""
    payload = closet._asdict()
    payload["embedding"] = None if closet.embedding is None else [float(x) for x in closet.embedding]
    del payload["closet_id"], payload["bank_id"]  # a bank may be renamed; its units know
    _record(conn, tenant, "closet", closet.closet_id, payload)


def dismiss_closet(conn: Connection, tenant: Tenant, closet_id: str) -> None:
    """Remember that nobody wants a closet of these units as long as they read as they do; call before it goes."""
    conn.execute(query("dismiss_closet", **tenant.names()), {"closet_id": closet_id})


def spoken_for(conn: Connection, tenant: Tenant) -> set[str]:
    """Units of closets that somebody asked for, or did not want: automatic ones leave them alone."""
    return {unit_id for (unit_id,) in conn.execute(query("spoken_for", **tenant.names())).fetchall()}


def forget(conn: Connection, tenant: Tenant, ids: Sequence[str]) -> list[str]:
    """Drop records; returns the ids that there were. The tunnels and closets themselves are left to the caller."""
    rows = conn.execute(query("forget_explicit", **tenant.names()), {"ids": list(ids)}).fetchall()
    return [found for (found,) in rows]


def list_explicit(conn: Connection, tenant: Tenant, *, kind: Kind | None = None) -> list[Explicit]:
    """Everything that was asked for, oldest first."""
    with conn.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(query("list_explicit", **tenant.names()), {"kind": kind}).fetchall()
    return [Explicit(**row) for row in rows]


def dig_explicit(conn: Connection, tenant: Tenant, ids: Sequence[str]) -> list[str]:
    """Make recorded tunnels whose ends both exist; returns the ids of those that were made or taken over."""
    rows = conn.execute(query("dig_explicit", **tenant.names()), {"ids": list(ids)}).fetchall()
    return [found for (found,) in rows]


def restore_explicit(database: Database, tenant: Tenant, lease: Lease, *, kinds: Sequence[Kind]) -> Restored:
    """Put back what is missing in the banks of the lease; nothing is written where nothing is missing.

    Raises:
        Busy: the lease was lost.
    """
    with database.connect() as conn:
        asked = [each for kind in kinds for each in list_explicit(conn, tenant, kind=kind)]
        ready = [each for each in asked if each.is_ready and set(each.banks) & set(lease.tokens)]
        tunnels = [each.id for each in ready if each.kind == "tunnel"]
        if tunnels:
            with conn.transaction():
                lease.check(conn, tenant, sorted(lease.tokens))
                tunnels = dig_explicit(conn, tenant, tunnels)
    # A closet has one bank; the lease has to cover it.
    closets = [_closet(each, tenant) for each in ready if each.kind == "closet" and len(each.banks) == 1]
    unwritten = write_closets(database, tenant, closets, lease)
    n_waiting = sum(1 for each in asked if each.missing or (each.changed and not each.is_present))
    return Restored(len(tunnels), len(closets) - len(unwritten), n_waiting + len(unwritten))


def _record(conn: Connection, tenant: Tenant, kind: Kind, found: str, payload: dict[str, Any]) -> None:
    values = {"id": found, "kind": kind, "payload": Jsonb(payload)}
    conn.execute(query("record_explicit", **tenant.names()), values)


def _closet(asked: Explicit, tenant: Tenant) -> WrittenCloset:
    """The closet as it was written; without its vector where the bank's vectors have another dimension now."""
    payload: dict[str, Any] = asked.payload | {"closet_id": asked.id, "bank_id": asked.banks[0]}
    vector = payload["embedding"]
    dims = tenant.embedding.dims if tenant.embedding else None
    fits = vector is not None and dims in (None, len(vector))
    payload["embedding"] = np.asarray(vector, np.float32) if fits else None
    payload |= {name: tuple(payload[name]) for name in ("unit_ids", "text_hashes")}
    return WrittenCloset(**payload)
