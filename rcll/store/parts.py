"""Parquet parts: what steps of a walk hand on, written whole or not at all."""

from contextlib import suppress
from pathlib import Path

import polars as pl

from rcll.errors import Transient


def write_part(frame: pl.DataFrame, path: Path) -> Path:
    """Write a part under another name first, so that whoever finds it finds it whole; returns the path.

    Raises:
        Transient: the disk is full, or the folder cannot be written.
    """
    unfinished = path.with_suffix(".unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.write_parquet(unfinished)
        unfinished.replace(path)
    except (OSError, pl.exceptions.ComputeError) as error:
        with suppress(OSError):
            unfinished.unlink()
        reason = str(error).splitlines()[0][:200]
        raise Transient(
            f"{path.parent} cannot be written: {reason}; expected room and the right to write under RCLL_STORAGE; "
            f"make room and run again"
        ) from None
    return path
