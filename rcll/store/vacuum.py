"""VACUUM between ranges of pages, given up as soon as somebody waits for the table.

VACUUM and CREATE INDEX exclude one another, and Hindsight creates indexes inside the transaction that makes a
bank; retains then queue behind it. PostgreSQL cancels an autovacuum in that place, but not a VACUUM by hand.
"""

import threading
from uuid import uuid4

import psycopg

from rcll.store.catalog import Tenant
from rcll.store.connect import Database
from rcll.store.places import units_name
from rcll.store.sql import query

#: How long somebody may wait for the table before he is noticed.
LOOK_SECONDS = 0.05


def vacuum_politely(database: Database, tenant: Tenant) -> bool:
    """VACUUM memory_units; returns whether it came to its end."""
    mark = f"rcll vacuum {uuid4().hex}"
    outcome: list[bool] = []

    def work() -> None:
        try:
            with database.connect(application_name=mark) as conn:
                conn.execute(query("vacuum_units", **tenant.names()))
        except psycopg.Error:
            outcome.append(False)  # cancelled, or locked by somebody: it was only a help
        else:
            outcome.append(True)

    vacuum = threading.Thread(target=work, daemon=True)
    vacuum.start()
    with database.connect() as conn:
        values = {"units": units_name(conn, tenant), "mark": mark}
        while vacuum.is_alive():
            vacuum.join(LOOK_SECONDS)
            conn.execute(query("cancel_vacuum"), values)
    return outcome == [True]
