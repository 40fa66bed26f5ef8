"""Rooms that were linked before: where nothing in a room has changed, its tunnels are not looked for again.

What counts as near and as rare depends on the whole room, so one new unit may move any of its tunnels, and comparing
that unit alone would end elsewhere than a run from scratch. Hence a room is compared again as a whole or not at all:
by a fingerprint of everything that its tunnels depend on, under which they are kept. Such a run ends equal to a full
one by construction, and a lost or damaged file costs time, nothing else.
"""

from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256

import numpy as np
import polars as pl
from upath import UPath

from rcll.errors import RcllError
from rcll.frames import LINK_UNITS, TUNNELS, require_schema
from rcll.settings import Settings
from rcll.stages.tunnels import TunnelParams
from rcll.store.parts import read_part, storage_path, write_part

#: To be raised when the stage finds other tunnels in the same room.
_METHOD = 1
_CHARS = 32


def fingerprint(units: pl.DataFrame, embeddings: np.ndarray, allowed: np.ndarray, params: TunnelParams) -> str:
    """What the tunnels of a room depend on; arguments as those of ``link_units``, units sorted."""
    digest = sha256(f"{_METHOD} {params!r} {embeddings.shape} {embeddings.dtype} {allowed.shape}".encode())
    for name in LINK_UNITS.names():
        for value in units[name].fill_null(""):
            data = value.encode("utf-8", "surrogatepass")
            digest.update(f"{len(data)}:".encode() + data)  # with its length, so that no two lists read alike
    digest.update(np.ascontiguousarray(embeddings).data)
    digest.update(np.packbits(allowed).data)
    return digest.hexdigest()[:_CHARS]


def linked_before(
    settings: Settings, schema: str, room: str, mark: str, link: Callable[[], pl.DataFrame]
) -> pl.DataFrame:
    """The room's tunnels (frames.TUNNELS) as they were kept under the mark, else by linking it now.

    Args:
        settings: where to keep them.
        schema: the tenant's.
        room: its name.
        mark: the room's fingerprint.
        link: finds the tunnels.
    """
    folder = storage_path(settings) / "links" / sha256(f"{schema}\0{room}".encode()).hexdigest()[:_CHARS]
    kept = folder / f"{mark}.parquet"
    with suppress(RcllError, pl.exceptions.PolarsError):
        return require_schema(read_part(kept), TUNNELS, "kept tunnels")
    found = link()
    write_part(found, kept)
    _forget_others(folder, kept)
    return found


def _forget_others(folder: UPath, kept: UPath) -> None:
    for path in folder.glob("*.parquet"):
        if path.name != kept.name:
            with suppress(OSError):
                path.unlink()
