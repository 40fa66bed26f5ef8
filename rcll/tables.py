"""Schemas of a snapshot's tables: the contract between Parquet files and the analysts who query them.

Columns are only ever added: a reader fills those that an older snapshot lacks with NULL.
"""

import polars as pl

#: UTC without a zone: readers need no zone data, and weeks begin at the same moment everywhere.
_TIME = pl.Datetime("us")

#: A unit as it stood. ``*_source`` says who decided (frames.SOURCES, NULL where no run has filed the unit), ``text``
#: is NULL in a snapshot without texts, ``text_key`` is equal for texts that differ in case, digits, blanks and
#: punctuation only (within one snapshot), ``is_stale`` tells that the text changed since it was labelled.
UNITS = pl.Schema(
    {
        "unit_id": pl.String,
        "bank_id": pl.String,
        "text": pl.String,
        "text_chars": pl.Int64,
        "text_hash": pl.String,
        "room": pl.String,
        "hall": pl.String,
        "layer": pl.Int16,
        "room_source": pl.String,
        "hall_source": pl.String,
        "layer_source": pl.String,
        "room_rule": pl.String,
        "hall_rule": pl.String,
        "layer_rule": pl.String,
        "room_tier": pl.String,
        "hall_tier": pl.String,
        "language": pl.String,
        "taxonomy_hash": pl.String,
        "run_id": pl.String,
        "labelled_at": _TIME,
        "is_held": pl.Boolean,
        "is_stale": pl.Boolean,
        "happened_at": _TIME,
        "created_at": _TIME,
        "text_key": pl.UInt64,
    }
)

#: Vectors apart from the units, as they are seldom wanted; ``embedding`` has one length in all rows of a file.
EMBEDDINGS = pl.Schema({"unit_id": pl.String, "bank_id": pl.String, "embedding": pl.List(pl.Float32)})

#: Closets with their freshness as it was: fresh, stale (a source reads differently now) or failed.
CLOSETS = pl.Schema(
    {
        "closet_id": pl.String,
        "bank_id": pl.String,
        "room": pl.String,
        "hall": pl.String,
        "title": pl.String,
        "summary": pl.String,
        "status": pl.String,
        "model": pl.String,
        "is_extractive": pl.Boolean,
        "n_read": pl.Int64,
        "n_sources": pl.Int64,
        "run_id": pl.String,
        "updated_at": _TIME,
    }
)

#: Sources by rank, the most central first; ``is_stale`` tells that the unit is gone, moved or reads differently.
CLOSET_SOURCES = pl.Schema(
    {
        "closet_id": pl.String,
        "bank_id": pl.String,
        "unit_id": pl.String,
        "rank": pl.Int64,
        "is_stale": pl.Boolean,
    }
)

#: Tunnels with the banks in which their ends stand.
TUNNELS = pl.Schema(
    {
        "tunnel_id": pl.String,
        "bank_id": pl.String,
        "source_unit_id": pl.String,
        "target_bank_id": pl.String,
        "target_unit_id": pl.String,
        "room": pl.String,
        "target_room": pl.String,
        "relationship": pl.String,
        "score": pl.Float32,
        "method": pl.String,
        "run_id": pl.String,
        "created_at": _TIME,
    }
)

#: Label changes that runs wrote, as far back as undo reaches.
CHANGES = pl.Schema(
    {
        "run_id": pl.String,
        "unit_id": pl.String,
        "bank_id": pl.String,
        "old_room": pl.String,
        "old_hall": pl.String,
        "old_layer": pl.String,
        "room": pl.String,
        "hall": pl.String,
        "layer": pl.String,
        "old_taxonomy_hash": pl.String,
        "changed_at": _TIME,
    }
)

#: Runs of the whole tenant; ``parameters`` and ``summary`` are JSON.
RUNS = pl.Schema(
    {
        "run_id": pl.String,
        "kind": pl.String,
        "status": pl.String,
        "started_at": _TIME,
        "finished_at": _TIME,
        "taxonomy_hash": pl.String,
        "rcll_version": pl.String,
        "parameters": pl.String,
        "summary": pl.String,
    }
)

#: How good the labels of each bank look, measured when the snapshot was made; shares are of its units.
QUALITY = pl.Schema(
    {
        "bank_id": pl.String,
        "n_units": pl.Int64,
        "general_share": pl.Float64,
        "undecided_share": pl.Float64,
        "unsupported_share": pl.Float64,
        "explicit_share": pl.Float64,
        "largest_room": pl.String,
        "largest_share": pl.Float64,
    }
)

TABLES = {
    "units": UNITS,
    "embeddings": EMBEDDINGS,
    "closets": CLOSETS,
    "closet_sources": CLOSET_SOURCES,
    "tunnels": TUNNELS,
    "changes": CHANGES,
    "runs": RUNS,
    "quality": QUALITY,
}
