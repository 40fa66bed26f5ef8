"""Moves the sources of closets to the archive layer, so that recall shows the closet in their place."""

from rcll.store.archive import claim_sources, note_archived, release_orphans
from rcll.store.lease import Lease
from rcll.store.load import write_labels
from rcll.store.write import WRITES, Stamp
from rcll.walk.place import Place, load_limits


def archive_sources(place: Place, bank: str, room: str, lease: Lease) -> int:
    """Where the settings ask for it, archive the sources of a room's fresh closets, less the most central of each.

    Layers that somebody set, critical units and those that an undo holds stay. A second call writes nothing.

    Returns:
        How many units were moved.
    """
    if not place.settings.archive_sources:
        return 0
    claimed = claim_sources(place.database, place.tenant, bank, room, lease)
    n_moved = 0
    for part in claimed.partition_by("taxonomy_hash", maintain_order=True):  # the ledger goes on to name its rules
        stamp = Stamp(taxonomy_hash=part["taxonomy_hash"][0], is_held=False)
        rows = part.select(WRITES.names())
        loaded = write_labels(place.database, place.tenant, rows, lease, stamp, limits=load_limits(place.settings))
        n_moved += loaded.n_written
    if not claimed.is_empty():
        note_archived(place.database, place.tenant, claimed["unit_id"].to_list(), lease)
    return n_moved


def give_back_orphans(place: Place, lease: Lease) -> int:
    """Give units their layer back whose closet is gone by another way than through rcll; returns how many."""
    return release_orphans(place.database, place.tenant, lease)
