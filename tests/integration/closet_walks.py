"""One matter that alice notes again and again, on a real database, and what a run does with her room."""

from pathlib import Path
from typing import Any

import polars as pl

from rcll.settings import Settings
from rcll.store.checks import run_checks
from rcll.store.closets import Closet, list_closets
from rcll.store.connect import Database
from rcll.store.lease import hold_banks
from rcll.store.ledger import finish_run, start_run
from rcll.walk.archive import give_back_orphans
from rcll.walk.asked import renew_closets, stale_wishes
from rcll.walk.closets import CondensedRoom, condense_room
from rcll.walk.making import Spent
from rcll.walk.place import Place
from tests.integration.places import REPEATED, fill, unit_id
from tests.integration.walks import Walk, migrated

#: Units of alice that hold the repeated matter.
MATTER = [unit_id(n) for n in range(100, 100 + 2 * len(REPEATED), 2)]


def note_again_and_again(database: Database, folder: Path) -> None:
    """Fill a migrated Hindsight-like database, all units filed under auth."""
    fill(database, "hindsight")
    migrated(database)
    with database.connect() as conn:
        conn.execute("UPDATE memory_units SET text = 'Note ' || md5(id::text) || ' ' || md5(text), embedding = NULL")
        for unit, text in zip(MATTER, REPEATED, strict=True):
            conn.execute("UPDATE memory_units SET text = %s WHERE id = %s", [text, unit])
    Walk(database, migrated(database), folder).run()


def place(walk: Walk, **settings: Any) -> Place:
    """The walk's place under other settings."""
    return Place(Settings(home=walk.folder, closet_threshold=100, **settings), walk.database, walk.tenant)


def condense(walk: Walk, **settings: Any) -> tuple[str, CondensedRoom]:
    """What a run does with alice's room: (run id, what became of it)."""
    where = place(walk, **settings)
    with walk.database.connect() as conn:
        run_id = start_run(conn, walk.tenant, kind="reorganize", taxonomy_hash="T", parameters={})
    planned = pl.DataFrame(
        walk.rows("SELECT id::text, hall FROM memory_units WHERE bank_id = 'alice' AND room = 'auth' ORDER BY 1"),
        schema={"unit_id": pl.String, "hall": pl.String},
        orient="row",
    )
    with hold_banks(walk.database, walk.tenant, ["alice"], run_id) as lease:
        give_back_orphans(where, lease)
        renewed = renew_closets(where, stale_wishes(where, ["alice"]), lease, Spent())
        found = condense_room(where, "alice", "auth", planned, lease=lease, spent=renewed.spent)
    with walk.database.connect() as conn:
        finish_run(conn, walk.tenant, run_id, status="done", summary={})
    return str(run_id), found


def closets(walk: Walk) -> list[Closet]:
    """All closets."""
    with walk.database.connect() as conn:
        return list_closets(conn, walk.tenant)


def layers(walk: Walk) -> dict[str, tuple[int, str]]:
    """Layer and its source of the matter's units."""
    found = walk.rows(
        "SELECT u.id::text, u.layer, l.layer_source FROM memory_units u JOIN rcll_labels l ON l.unit_id = u.id"
        " WHERE u.id = ANY(%s::uuid[])",
        MATTER,
    )
    return {unit: (layer, source) for unit, layer, source in found}


def state(walk: Walk) -> dict[str, list[Any]]:
    """Place and transaction of every row that a run might write: equal only if nothing was written."""
    tables = ("memory_units", "rcll_labels", "closets", "closet_sources", "rcll_changes", "rcll_explicit")
    return {table: walk.rows(f"SELECT ctid, xmin FROM {table} ORDER BY 1") for table in tables}


def checks(walk: Walk) -> dict[str, Any]:
    """Broken rules of sql/checks."""
    with walk.database.connect() as conn:
        return run_checks(conn, walk.tenant)
