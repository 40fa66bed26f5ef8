"""Schemas of the frames that travel between stages; one name per column from PostgreSQL to DuckDB."""

import polars as pl

from rcll.errors import RcllError

#: Fallbacks of the specification; also the defaults of the added columns.
DEFAULT_ROOM, DEFAULT_HALL, DEFAULT_LAYER = "general", "fact", 2

#: Halls in the order of the specification; ties between halls are broken by it.
HALL_ORDER = ("warning", "decision", "procedure", "event", "preference", "discovery", "fact")

#: Who decided a field of a label.
SOURCES = ("rule", "explicit", "archived", "adopted")

#: Text as classified: what every classifier takes. ``text`` may be null.
TEXTS = pl.Schema({"unit_id": pl.String, "text": pl.String})

#: What the classifier proposes; ``*_rule`` is the rule's id, null where the fallback was taken.
#: ``*_tier`` is the tier of the rule that fired (specific, word, weak), null at the fallback.
#: ``language`` is a taxonomy language code, or "other" for a text whose language has no pack, or null
#: where there is no text to tell from.
LABELS = pl.Schema(
    {
        "unit_id": pl.String,
        "room": pl.String,
        "hall": pl.String,
        "layer": pl.Int16,
        "room_rule": pl.String,
        "hall_rule": pl.String,
        "layer_rule": pl.String,
        "room_tier": pl.String,
        "hall_tier": pl.String,
        "language": pl.String,
    }
)

#: A unit as read from the database, beside what the ledger says of it. ``room``, ``hall`` and
#: ``layer`` are the stored values as text (a fork stores layers as 'L2'); ``*_ours`` tells that rcll
#: wrote the present value in an earlier run. ``is_known`` tells that the ledger has a row.
UNITS = pl.Schema(
    {
        "unit_id": pl.String,
        "bank_id": pl.String,
        "text": pl.String,
        "text_hash": pl.String,
        "room": pl.String,
        "hall": pl.String,
        "layer": pl.String,
        "is_known": pl.Boolean,
        "ledger_room": pl.String,
        "ledger_hall": pl.String,
        "ledger_layer": pl.Int16,
        "room_source": pl.String,
        "hall_source": pl.String,
        "layer_source": pl.String,
        "ledger_room_rule": pl.String,
        "ledger_hall_rule": pl.String,
        "ledger_layer_rule": pl.String,
        "ledger_room_tier": pl.String,
        "ledger_hall_tier": pl.String,
        "ledger_language": pl.String,
        "ledger_text_hash": pl.String,
        "ledger_taxonomy_hash": pl.String,
        "is_held": pl.Boolean,
        "room_ours": pl.Boolean,
        "hall_ours": pl.Boolean,
        "layer_ours": pl.Boolean,
    }
)

#: One row per unit whose label or ledger row has to be written. ``old_*`` are the stored values as
#: text, ``writes_unit`` is false where only the ledger learns something, ``reason`` says why in a word.
CHANGES = pl.Schema(
    {
        "unit_id": pl.String,
        "bank_id": pl.String,
        "text_hash": pl.String,
        "old_room": pl.String,
        "old_hall": pl.String,
        "old_layer": pl.String,
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
        "writes_unit": pl.Boolean,
        "reason": pl.String,
    }
)

#: Members of one (bank, room) as the closet stage takes them; row i belongs to embedding row i.
#: ``happened_at`` is null where the database knows no finite date. The archived are among them.
ROOM_UNITS = pl.Schema(
    {
        "unit_id": pl.String,
        "hall": pl.String,
        "text": pl.String,
        "text_hash": pl.String,
        "happened_at": pl.Datetime("us", "UTC"),
    }
)

#: One row per (group, member), sorted by group, then rank; rank 0 is the most central member.
GROUPS = pl.Schema({"group": pl.Int32, "unit_id": pl.String, "rank": pl.Int32})

#: Units of one room of several banks as the tunnel stage takes them; row i belongs to embedding row i.
LINK_UNITS = pl.Schema({"unit_id": pl.String, "bank_id": pl.String, "text": pl.String})

#: Proposed tunnels, sorted by (source_unit_id, target_unit_id, relationship); source < target as text.
TUNNELS = pl.Schema(
    {
        "source_unit_id": pl.String,
        "target_unit_id": pl.String,
        "source_bank_id": pl.String,
        "target_bank_id": pl.String,
        "relationship": pl.String,
        "score": pl.Float32,
        "evidence": pl.String,
    }
)


def require_schema(frame: pl.DataFrame, schema: pl.Schema, name: str) -> pl.DataFrame:
    """Return the frame with exactly the schema's columns in order.

    Raises:
        RcllError: a column is missing or has another type.
    """
    for column, dtype in schema.items():
        found = frame.schema.get(column)
        if found is None:
            raise RcllError(f"{name} lacks column '{column}'; found {frame.columns}")
        if found != dtype:
            raise RcllError(f"{name}.{column} is {found}; expected {dtype}")
    return frame.select(schema.names())
