"""A snapshot of 1 M units (a fifth of them repeated) beside a plain COPY of the same rows, and every question.

    python -m bench.snapshot [--units 1000000] [--banks 20]

Snapshot and COPY run in processes of their own, interleaved; CPU is that of the client, wall includes the server's.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from rcll.analyst.duck import open_snapshots
from rcll.analyst.questions import load_questions
from rcll.store.catalog import read_tenants
from rcll.store.connect import Database
from rcll.store.embedded import EmbeddedServer
from rcll.store.migrate import create_base, migrate

FILL = """
INSERT INTO memory_units (id, bank_id, text, created_at, room, hall)
SELECT md5('u' || n)::uuid, 'bank-' || mod(n, %(banks)s),
       'The ' || (ARRAY['token','pipeline','server','release','table','endpoint','button'])[mod(n, 7) + 1]
       || ' of team ' || mod(n, 997) || ' was changed on day ' || mod(n, 365) || '; '
       || md5(CASE WHEN mod(n, 5) = 0 THEN mod(n, 40000) ELSE n END::text)
       || ' explains why, and ' || md5(CASE WHEN mod(n, 5) = 0 THEN 0 ELSE n END::text) || ' who asked for it.',
       '2025-01-01'::timestamptz + mod(n, 500) * interval '1 day',
       (ARRAY['auth','pipeline','infrastructure','deployment','schema','api','ui'])[mod(n, 7) + 1],
       (ARRAY['fact','event','decision','warning','procedure'])[mod(n, 5) + 1]
FROM generate_series(1, %(units)s) n;
INSERT INTO rcll_runs (run_id, kind, status, finished_at, taxonomy_hash, summary)
VALUES (md5('run')::uuid, 'reorganize', 'done', now(), 'T', '{}');
INSERT INTO rcll_labels (unit_id, bank_id, room, hall, layer, room_source, hall_source, layer_source, room_rule,
                         hall_rule, room_tier, hall_tier, language, taxonomy_hash, text_hash, run_id)
SELECT id, bank_id, room, hall, 2, 'rule', 'rule', 'rule', room || '-word-1', hall || '-cue-2', 'word', 'word', 'en',
       'T', left(encode(sha256(convert_to(text, 'UTF8')), 'hex'), 32), md5('run')::uuid
FROM memory_units;
INSERT INTO rcll_changes (run_id, unit_id, bank_id, old_room, old_hall, old_layer, room, hall, layer)
SELECT md5('run')::uuid, id, bank_id, 'general', 'fact', '2', room, hall, '2' FROM memory_units WHERE hall <> 'fact';
VACUUM ANALYZE
"""

WAYS = ("copy", "snapshot")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--units", type=int, default=1_000_000)
    options.add_argument("--banks", type=int, default=20)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--way", choices=WAYS, help="used by the bench itself")
    options.add_argument("--url")
    options.add_argument("--folder", type=Path)
    given = options.parse_args()
    if given.way:
        run_way(given.way, given.url, given.folder)
        return
    with tempfile.TemporaryDirectory(prefix="rcll-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        with EmbeddedServer(folder / "home") as server:
            url = server.url("rcll")
            fill(url, given)
            measured = [measure(way, url, folder / f"{n}-{way}") for n in range(given.rounds) for way in WAYS]
        for way in WAYS:
            rows = [row for row in measured if row["way"] == way]
            best = min(rows, key=lambda row: row["wall"])
            print(
                f"{way:9} wall {best['wall']:.2f} s  cpu {best['cpu']:.2f} s  peak {best['peak_mb']} MB", best["more"]
            )
        walls = {way: min(row["wall"] for row in measured if row["way"] == way) for way in WAYS}
        print(f"snapshot / copy: {walls['snapshot'] / walls['copy']:.2f}")
        ask(folder / "0-snapshot")


def fill(url: str, given: argparse.Namespace) -> None:
    database = Database(url, is_embedded=True)
    create_base(database)
    with database.connect() as conn:
        migrate(database, read_tenants(conn)[0])
        for statement in FILL.split(";\n"):
            values = {"units": given.units, "banks": given.banks}
            conn.execute(statement, values if "%(" in statement else None)


def measure(way: str, url: str, folder: Path) -> dict:
    folder.mkdir()
    command = [sys.executable, "-m", "bench.snapshot", "--way", way, "--url", url, "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {"way": way} | json.loads(done.stdout)


def run_way(way: str, url: str, folder: Path) -> None:
    """One way in this process; prints what it took as JSON."""
    from rcll.analyst.snapshot import SnapshotOptions, take_snapshot

    database = Database(url, is_embedded=True)
    with database.connect() as conn:
        (tenant,) = read_tenants(conn)
    started, cpu = time.perf_counter(), time.process_time()
    more = ""
    if way == "copy":
        plain_copy(url, folder / "units.csv")
    else:
        _, manifest = take_snapshot(database, tenant, str(folder), SnapshotOptions(embeddings=False))
        n_bytes = sum(table["n_bytes"] for table in manifest.tables.values())
        more = f"held {manifest.longest_hold} s at most, {n_bytes / 1e6:.0f} MB"
    wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"wall": wall, "cpu": cpu, "peak_mb": peak, "more": more}))


def plain_copy(url: str, path: Path) -> None:
    """The same columns of units and ledger, and the changes, as text to a file."""
    units = """
        SELECT u.id, u.bank_id, u.text, length(u.text), left(encode(sha256(convert_to(u.text, 'UTF8')), 'hex'), 32),
               u.room, u.hall, u.layer, l.room_source, l.hall_source, l.layer_source, l.room_rule, l.hall_rule,
               l.layer_rule, l.room_tier, l.hall_tier, l.language, l.taxonomy_hash, l.run_id, l.labelled_at,
               l.is_held, u.created_at
        FROM memory_units u LEFT JOIN rcll_labels l ON l.unit_id = u.id"""
    changes = """
        SELECT run_id, unit_id, bank_id, old_room, old_hall, old_layer, room, hall, layer, changed_at
        FROM rcll_changes"""
    with psycopg.connect(url) as conn, path.open("wb") as file:
        for select in (units, changes):
            with conn.cursor() as cursor, cursor.copy(f"COPY ({select}) TO STDOUT") as copy:
                for row in copy:
                    file.write(row)


def ask(folder: Path) -> None:
    """Every question of sql/analysis, in its own words for all banks; seconds of the second call."""
    with open_snapshots(str(folder)) as connection:
        for question in load_questions():
            if question.needs_embeddings:
                continue
            seconds = []
            for _ in range(2):
                start = time.perf_counter()
                rows = connection.execute(question.example).fetchall()
                seconds.append(time.perf_counter() - start)
            print(f"{question.name:28} {seconds[0]:6.2f} s {seconds[1]:6.2f} s {len(rows):8} rows")


if __name__ == "__main__":
    main()
