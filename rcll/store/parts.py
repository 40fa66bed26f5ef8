"""Parquet parts: what steps of a walk hand on, in a folder or in any store that fsspec reaches, whole or not at all."""

import io
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast
from urllib.parse import quote

import polars as pl
from upath import UPath

from rcll.errors import InputError, Transient
from rcll.settings import Settings


def storage_path(settings: Settings) -> UPath:
    """RCLL_STORAGE as a path; listings of a remote store are never kept, as other machines write there too.

    Raises:
        InputError: no such protocol, or its library is not installed.
    """
    place = settings.storage_dir
    try:
        return UPath(place, use_listings_cache=False) if "://" in place else UPath(place)
    except (ImportError, ValueError) as error:
        reason = str(error).splitlines()[0][:200]
        raise InputError(
            f"RCLL_STORAGE '{place.partition('://')[0]}://…' cannot be used: {reason}; expected a folder or a store "
            "that fsspec knows, with its library installed (s3fs for s3://)"
        ) from None


def schema_folder(schema: str) -> str:
    """Name of a tenant's folder; a schema may be called ``a/../../b``, which must not lead anywhere."""
    return quote(schema, safe="").replace(".", "%2E")


def write_part(frame: pl.DataFrame, path: UPath) -> UPath:
    """Write a part so that whoever finds it finds it whole; returns the path.

    A folder gets it under another name first; an object store shows an object only once it is there.

    Raises:
        Transient: the disk is full, or the folder cannot be written.
    """
    unfinished = path.with_suffix(".unfinished") if _is_local(path) else path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as stream:
            frame.write_parquet(stream)
        if unfinished != path:
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


def read_part(path: UPath) -> pl.DataFrame:
    """Read a part.

    Raises:
        Transient: it is not there (any more), or cannot be read.
    """
    try:
        if _is_local(path):
            return pl.read_parquet(cast("Path", path), glob=False)  # a folder may be called "[old]"
        return pl.read_parquet(io.BytesIO(path.read_bytes()))
    except OSError as error:
        raise Transient(
            f"part {path.name} cannot be read from {path.parent}: {type(error).__name__}; expected every process of "
            "a run to reach RCLL_STORAGE; run again"
        ) from None


def scan_parts(paths: Sequence[UPath]) -> pl.LazyFrame:
    """Parts as one lazy frame; those of a remote store are fetched now, compressed as they are."""
    if all(map(_is_local, paths)):
        return pl.scan_parquet(cast("list[Path]", list(paths)), glob=False)
    return pl.concat([pl.scan_parquet(io.BytesIO(path.read_bytes())) for path in paths])


def remove_folder(folder: UPath) -> None:
    """Delete a folder and all that is in it; what cannot be deleted stays."""
    if _is_local(folder):
        shutil.rmtree(str(folder), ignore_errors=True)
        return
    with suppress(OSError):
        folder.fs.rm(folder.path, recursive=True)


def _is_local(path: UPath) -> bool:
    return isinstance(path, Path)
