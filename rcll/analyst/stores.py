"""Stores that are no local folder: whatever fsspec has a driver for, such as s3:// with s3fs installed."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import fsspec

from rcll.analyst.layout import MANIFEST
from rcll.errors import InputError


def is_remote(target: str) -> bool:
    """Whether a target is a URL and no path."""
    return "://" in target


def check_store(target: str) -> None:
    """Refuse a store for which there is no driver, before anything is read for it.

    Raises:
        InputError: no driver for the URL.
    """
    _open(target)


def upload(folder: Path, target: str, name: str) -> str:
    """Copy a snapshot into a store, its manifest last: what bears one is whole.

    Returns:
        URL of the snapshot.

    Raises:
        InputError: no driver for the URL, or the store refuses.
    """
    url = f"{target.rstrip('/')}/{name}"
    fs, path = _open(url)
    try:
        for file in sorted(folder.rglob("*.parquet")):
            place = f"{path}/{file.relative_to(folder).as_posix()}"
            fs.makedirs(place.rpartition("/")[0], exist_ok=True)
            fs.put_file(str(file), place)
        fs.put_file(str(folder / MANIFEST), f"{path}/{MANIFEST}")
    except Exception as error:  # noqa: BLE001 - every driver has errors of its own
        refuse_store(target, f"{type(error).__name__}: {error}")
    return url


@contextmanager
def local_copy(target: str) -> Generator[Path]:
    """A local folder with what lies in a store; the folder itself where the target is local."""
    if not is_remote(target):
        yield Path(target)
        return
    fs, path = _open(target)
    with tempfile.TemporaryDirectory(prefix="rcll-snapshot-") as folder:
        try:
            for found in fs.find(path):
                place = Path(folder) / str(found).removeprefix(path).lstrip("/")
                place.parent.mkdir(parents=True, exist_ok=True)
                fs.get_file(found, str(place))
        except Exception as error:  # noqa: BLE001
            refuse_store(target, f"{type(error).__name__}: {error}")
        yield Path(folder)


def refuse_store(target: str, reason: str) -> NoReturn:
    """Say in one line that a folder or store cannot be used."""
    line = " ".join(reason.split())[:200]
    raise InputError(f"{target} cannot be used: {line}; expected a folder or store that can be written") from None


def _open(url: str) -> tuple[Any, str]:
    try:
        fs, path = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError, OSError) as error:
        refuse_store(url, str(error))
    return fs, path
