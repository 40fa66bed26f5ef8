"""Writes snapshots by hand, so that questions can be asked of known data without a database."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from rcll.analyst.layout import FORMAT, MANIFEST, BankPart, Manifest
from rcll.tables import TABLES

_MANIFEST = Manifest(
    format=FORMAT,
    snapshot_id="",
    schema="public",
    kind="own",
    rcll_version="0.1.0",
    made_at="2026-06-01T02:30:00.000+00:00",
    seconds=1.0,
    has_texts=True,
    has_embeddings=True,
    migrated=True,
    tables={},
    banks=[],
)


def write_snapshot(folder: Path, snapshot_id: str, tables: dict[str, list[dict[str, Any]]], **manifest: Any) -> Path:
    """Write one snapshot; columns that a row does not name are NULL."""
    home = folder / f"schema={manifest.get('schema', 'public')}" / f"snapshot={snapshot_id}"
    counts = {table: {"n_rows": 0, "n_files": 0, "n_bytes": 0} for table in TABLES}
    for table, rows in tables.items():
        if rows:
            frame = pl.DataFrame(
                rows, schema_overrides={k: TABLES[table][k] for k in rows[0]}, infer_schema_length=None
            )
            place = home / table / "bank=~several"
            place.mkdir(parents=True)
            frame.write_parquet(place / "part-00000.parquet")
            counts[table] = {"n_rows": len(rows), "n_files": 1, "n_bytes": 1}
    home.mkdir(parents=True, exist_ok=True)
    units = tables.get("units", [])
    names = sorted({unit["bank_id"] for unit in units})
    banks = [
        BankPart(name, "bank=~several", sum(unit["bank_id"] == name for unit in units), _MANIFEST.made_at, 0.1)
        for name in names
    ]
    written = replace(_MANIFEST, **{"snapshot_id": snapshot_id, "tables": counts, "banks": banks} | manifest)
    (home / MANIFEST).write_text(written.as_json(), encoding="utf-8")
    return home


def unit(number: int, bank: str = "alice", room: str = "auth", **more: Any) -> dict[str, Any]:
    """A unit with a label that a rule gave."""
    return {
        "unit_id": f"u{number:03d}",
        "bank_id": bank,
        "text": f"text {number}",
        "text_chars": 6,
        "room": room,
        "hall": "fact",
        "layer": 2,
        "room_source": "rule",
        "hall_source": "rule",
        "layer_source": "rule",
        "language": "en",
    } | more
