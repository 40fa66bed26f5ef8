"""A snapshot for analysts on a schedule: every tenant to Parquet, the oldest snapshots pruned."""

from dataclasses import asdict
from typing import Annotated, Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from pydantic import Field

from rcll.analyst.snapshot import SnapshotOptions, prune_snapshots, take_snapshot
from rcll.analyst.stores import is_remote
from rcll.settings import load_settings
from rcll.walk.place import open_place, open_places, places_of


@task(cache_policy=NO_CACHE, retries=1, retry_delay_seconds=30)
def export(schema: str, banks: list[str] | None, target: str, texts: bool, embeddings: bool) -> dict[str, Any]:
    """Write one tenant's snapshot; returns where it lies and what it counts, less the list of banks."""
    with open_place(schema) as place:
        options = SnapshotOptions(banks, texts=texts, embeddings=embeddings)
        where, manifest = take_snapshot(place.database, place.tenant, target, options)
    counts = {"n_banks": len(manifest.banks), "longest_hold": manifest.longest_hold}
    return {"path": where} | asdict(manifest) | {"banks": None} | counts


@flow(name="snapshot")
def snapshot(
    target: str | None = None,
    banks: list[str] | None = None,
    schemas: list[str] | None = None,
    texts: bool = True,
    embeddings: bool = True,
    keep: Annotated[int | None, Field(ge=1)] = None,
) -> list[dict[str, Any]]:
    """Write a snapshot of every tenant.

    Args:
        target: Folder or store; empty means storage/snapshots.
        banks: Banks; empty means all.
        schemas: PostgreSQL schemas (tenants); empty means all.
        texts: Take texts of memories along.
        embeddings: Take vectors along.
        keep: Prune to this many snapshots; empty keeps all.

    Returns:
        One summary per tenant: path, tables, seconds, longest_hold.
    """
    where = target or load_settings().snapshots
    with open_places(schemas or ()) as places:
        chosen = [(place.tenant.schema, held) for place, held in places_of(places, banks or None)]
    made = [export(schema, held, where, texts, embeddings) for schema, held in chosen]
    if keep is not None and not is_remote(where):
        prune_snapshots(where, keep=keep)
    return made
