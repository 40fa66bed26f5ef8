"""Fills a database of some kind with two banks of plain units."""

from pathlib import Path
from uuid import UUID

from rcll.store.connect import Database

N_UNITS = 300
_DATABASES = Path(__file__).parent / "databases"


def unit_id(number: int) -> str:
    """Id of the n-th unit; even numbers are alice's, odd ones bob's."""
    return str(UUID(int=number + 1))


def fill(database: Database, kind: str) -> None:
    """Make the tables of ``databases/<kind>.sql`` and put N_UNITS units of alice and bob in."""
    with database.connect() as conn:
        conn.execute((_DATABASES / f"{kind}.sql").read_text(encoding="utf-8"))
        conn.execute("DELETE FROM memory_units")
        conn.execute("INSERT INTO banks (bank_id) VALUES ('alice'), ('bob')")
        conn.execute(
            "INSERT INTO memory_units (id, bank_id, text, embedding)"
            " SELECT lpad(to_hex(n + 1), 32, '0')::uuid, (ARRAY['alice', 'bob'])[mod(n, 2) + 1],"
            "        'text ' || n, (SELECT array_agg(sin(n * i)) FROM generate_series(1, 384) i)::real[]::vector"
            " FROM generate_series(0, %s - 1) n",
            [N_UNITS],
        )
