"""Fills a database of some kind with two banks of plain units, and texts that belong together."""

import math
from pathlib import Path
from uuid import UUID

from rcll.store.connect import Database

N_UNITS = 300
_DATABASES = Path(__file__).parent / "databases"


#: What both banks know about servers, in the words of each.
SHARED = (
    ("Server alder runs Debian 12 since March.", "Since March alder has been a Debian 12 server."),
    ("The UPS of rack 7 lasts 40 minutes.", "Rack 7 keeps its servers up for 40 minutes on its UPS."),
    ("DNS zone orchard.example moved to the new name servers.", "The new name servers hold the zone orchard.example."),
    ("The TLS certificate of birch expires on 3 June.", "On 3 June the TLS certificate of server birch runs out."),
    ("Server cedar lost a disk of its RAID 6 array.", "One disk of cedar's RAID 6 array failed in the server."),
    ("Backups of server fir go to tape every Sunday.", "Every Sunday the backups of fir are written to tape."),
)
#: One narrow matter that alice noted again and again.
REPEATED = (
    "The tape robot of server hazel jammed on Monday and the backup stopped.",
    "On Tuesday the tape robot of hazel jammed again; the backup was stopped by hand.",
    "Backup of server hazel stopped because its tape robot had jammed.",
    "The tape robot of hazel jams when the backup of the server runs longer than six hours.",
    "A jammed tape robot stopped the backup of hazel on Friday.",
)
_REST = "Server db-{n} ran out of disk space on day {n}; we grew the volume group."


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


def fill_matters(database: Database) -> None:
    """Two Hindsight-like banks about servers that know six matters in common; alice repeats a seventh."""
    fill(database, "hindsight")
    with database.connect() as conn:
        conn.execute("UPDATE memory_units SET text = replace(%s, '{n}', right(id::text, 3))", [_REST])
        matters = [(pair, (2 * number, 2 * number + 1)) for number, pair in enumerate(SHARED)]
        matters.append((REPEATED, range(100, 100 + 2 * len(REPEATED), 2)))
        for seed, (texts, numbers) in enumerate(matters, start=1000):
            vector = str([math.sin(seed * i) for i in range(384)])
            for number, text in zip(numbers, texts, strict=True):
                changed = [text, vector, unit_id(number)]
                conn.execute("UPDATE memory_units SET text = %s, embedding = %s WHERE id = %s", changed)
