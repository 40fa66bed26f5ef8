"""Writes a snapshot: bank by bank to Parquet, aside first, then renamed, so that a reader never sees half of one."""

import os
import shutil
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from rcll import __version__
from rcll.analyst.layout import FORMAT, MANIFEST, SEVERAL, BankPart, Manifest, bank_folder, schema_folder
from rcll.analyst.measures import measure_banks
from rcll.analyst.stores import check_store, is_remote, refuse_store, upload
from rcll.errors import RcllError, Transient
from rcll.progress import report
from rcll.store.catalog import Tenant
from rcll.store.connect import Connection, Database
from rcll.store.export import export_table, frozen, one_behind
from rcll.store.extract import count_units, extract_embeddings, list_banks
from rcll.tables import EMBEDDINGS, TABLES

#: A bank below this shares its files with others: five thousand banks of one unit make a handful of files.
OWN_FILES_UNITS = 250_000
#: Units of small banks that are read, and lie, together.
GROUP_UNITS = 250_000
#: Vectors that are read at once: 77 MB of 384 numbers.
EMBEDDED_ROWS = 50_000

_BANK_TABLES = ("units", "closets", "closet_sources", "tunnels", "changes")
_STAGING = ".unfinished-"
_DEAD_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """What a snapshot holds: which banks (None for all), with texts and embeddings or without."""

    banks: Sequence[str] | None = None
    texts: bool = True
    embeddings: bool = True


@dataclass(slots=True)
class _Writer:
    """Writes parts into a staging folder and counts them."""

    folder: Path
    tables: dict[str, dict[str, int]] = field(
        default_factory=lambda: {table: {"n_rows": 0, "n_files": 0, "n_bytes": 0} for table in TABLES}
    )

    def write(self, frame: pl.DataFrame, table: str, bank: str | None = None) -> Path | None:
        """Write one part; an empty frame makes no file."""
        counts = self.tables[table]
        if frame.is_empty():
            return None
        folder = self.folder / table if bank is None else self.folder / table / bank
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"part-{counts['n_files']:05d}.parquet"
        frame.write_parquet(path, compression="zstd", compression_level=1)
        counts["n_rows"] += frame.height
        counts["n_files"] += 1
        counts["n_bytes"] += path.stat().st_size
        return path


def take_snapshot(
    database: Database, tenant: Tenant, target: str, options: SnapshotOptions | None = None
) -> tuple[str, Manifest]:
    """Write one tenant's snapshot under a folder or store.

    Args:
        database: where the tenant lives.
        tenant: whose units.
        target: a folder, or the URL of a store that fsspec reaches.
        options: what it holds; all by default.

    Returns:
        Where the snapshot lies, and its manifest.

    Raises:
        Transient: no room, or the server was cut off; nothing stays behind.
        InputError: the folder or store cannot be used.
    """
    options = options or SnapshotOptions()
    now = datetime.now(UTC)
    snapshot_id = f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03d}Z"
    name = f"snapshot={snapshot_id}"
    started = time.monotonic()
    with _staged(target, tenant) as (staging, home):
        writer = _Writer(staging)
        banks = _export_banks(database, tenant, writer, options)
        _export_runs(database, tenant, writer)
        writer.write(measure_banks(staging / "units"), "quality")
        manifest = Manifest(
            format=FORMAT,
            snapshot_id=snapshot_id,
            schema=tenant.schema,
            kind=tenant.kind,
            rcll_version=__version__,
            made_at=now.isoformat(timespec="milliseconds"),
            seconds=round(time.monotonic() - started, 3),
            has_texts=options.texts,
            has_embeddings=options.embeddings and _vector_dims(tenant) > 0,
            migrated=tenant.migrated,
            tables=writer.tables,
            banks=banks,
        )
        (staging / MANIFEST).write_text(manifest.as_json(), encoding="utf-8")
        return _publish(staging, target, home, name), manifest


def _export_banks(database: Database, tenant: Tenant, writer: _Writer, options: SnapshotOptions) -> list[BankPart]:
    with database.connect() as conn:
        counts = count_units(conn, tenant, options.banks)
        names = sorted(options.banks) if options.banks is not None else list_banks(conn, tenant)
    sizes = {name: counts.get(name, 0) for name in names}
    total, done = sum(sizes.values()), 0
    parts: list[BankPart] = []
    for banks, folder in _grouped(sizes):
        read_at, start = datetime.now(UTC), time.monotonic()
        with frozen(database) as conn:
            n_units = _export_group(conn, tenant, writer, banks, folder, options)
        held = round(time.monotonic() - start, 3)
        stamp = read_at.isoformat(timespec="milliseconds")
        parts += [BankPart(bank, folder, n_units.get(bank, 0), stamp, held) for bank in banks]
        done += sum(sizes[bank] for bank in banks)
        report("snapshot", done, total, bank=banks[-1])
    return sorted(parts, key=lambda part: part.bank_id)


def _grouped(sizes: dict[str, int]) -> Iterator[tuple[list[str], str]]:
    """Large banks alone, small ones together; each with the folder of their files."""
    small: list[str] = []
    n_units = 0
    for bank, size in sizes.items():
        if size >= OWN_FILES_UNITS:
            yield [bank], bank_folder(bank)
            continue
        if small and n_units + size > GROUP_UNITS:
            yield small, f"bank={SEVERAL}"
            small, n_units = [], 0
        small.append(bank)
        n_units += size
    if small:
        yield small, f"bank={SEVERAL}"


def _export_group(
    conn: Connection, tenant: Tenant, writer: _Writer, banks: list[str], folder: str, options: SnapshotOptions
) -> dict[str, int]:
    """Write every table of some banks, as one state of the database; returns the units of each."""
    n_units: Counter[str] = Counter()
    paths: list[Path] = []
    for table in _BANK_TABLES:
        frames = export_table(conn, tenant, table, banks, texts=options.texts)
        for path, sizes in one_behind(partial(_write_part, writer, table, folder), frames):
            if table == "units" and path:
                paths.append(path)
                n_units.update(sizes)
    if options.embeddings and _vector_dims(tenant):
        for path in paths:
            _export_embeddings(conn, tenant, writer, path, folder)
    return n_units


def _write_part(writer: _Writer, table: str, folder: str, frame: pl.DataFrame) -> tuple[Path | None, dict[str, int]]:
    """Write a part; returns where, and the rows of each bank."""
    return writer.write(frame, table, folder), dict(frame["bank_id"].value_counts().iter_rows())


def _vector_dims(tenant: Tenant) -> int:
    """Length of the vectors; 0 where there is no such column, or one that takes any length."""
    return (tenant.embedding.dims if tenant.embedding else None) or 0


def _export_embeddings(conn: Connection, tenant: Tenant, writer: _Writer, units: Path, folder: str) -> None:
    """Write the vectors of the units of one part; units without one are left out."""
    ids = pl.read_parquet(units, columns=["unit_id", "bank_id"])
    for part in ids.iter_slices(EMBEDDED_ROWS):
        vectors = extract_embeddings(conn, tenant, part["unit_id"].to_list())
        found = np.asarray(~np.isnan(vectors).all(axis=1))
        embedded = part.filter(pl.Series(found)).with_columns(
            embedding=pl.Series(vectors[found], dtype=pl.Array(pl.Float32, vectors.shape[1])).arr.to_list()
        )
        writer.write(embedded.select(EMBEDDINGS.names()), "embeddings", folder)


def _export_runs(database: Database, tenant: Tenant, writer: _Writer) -> None:
    with frozen(database) as conn:
        for frame in export_table(conn, tenant, "runs", (), texts=True):
            writer.write(frame, "runs")


@contextmanager
def _staged(target: str, tenant: Tenant) -> Generator[tuple[Path, Path]]:
    """A folder to write into, and the one where the snapshot shall lie; nothing of it stays after an error."""
    if is_remote(target):
        check_store(target)
    home = Path(tempfile.gettempdir() if is_remote(target) else target) / schema_folder(tenant.schema)
    staging = home / f"{_STAGING}{socket.gethostname()}-{os.getpid()}-{time.time_ns()}"
    try:
        staging.mkdir(parents=True)
    except OSError as error:
        refuse_store(target, error.strerror or str(error))
    try:
        yield staging, home
    except (OSError, pl.exceptions.ComputeError) as error:
        reason = str(error).splitlines()[0][:200]
        raise Transient(
            f"{target} cannot be written: {reason}; expected room and the right to write; make room and run again"
        ) from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        with suppress(OSError):  # not empty: other snapshots lie there
            home.rmdir()


def _publish(staging: Path, target: str, home: Path, name: str) -> str:
    if is_remote(target):
        return upload(staging, target, f"{home.name}/{name}")
    staging.rename(home / name)
    return str(home / name)


def prune_snapshots(target: str, *, keep: int) -> list[str]:
    """Remove a local folder's oldest snapshots beyond ``keep`` of each tenant, and pieces of killed writers.

    Returns:
        Paths of what was removed, sorted.

    Raises:
        RcllError: the target is no local folder, or something cannot be removed.
    """
    if is_remote(target):
        raise RcllError(f"{target} is no local folder; expected one; use the store's own rules of expiry")
    gone: list[Path] = []
    for home in sorted(Path(target).glob("schema=*")):
        whole = sorted(file.parent for file in home.glob(f"snapshot=*/{MANIFEST}"))
        torn = [path for path in home.glob("snapshot=*") if path not in whole]
        gone += [*whole[: max(len(whole) - keep, 0)], *torn, *filter(_is_dead, home.glob(f"{_STAGING}*"))]
    for path in gone:
        try:
            (path / MANIFEST).unlink(missing_ok=True)  # half removed is no snapshot
            shutil.rmtree(path)
        except OSError as error:
            raise RcllError(f"{path} cannot be removed: {error.strerror}; expected the right to write there") from None
    return sorted(map(str, gone))


def _is_dead(staging: Path) -> bool:
    """Whether nobody writes into it any more: its process is gone, or it is of another machine and a day old."""
    host, pid, _ = staging.name.removeprefix(_STAGING).rsplit("-", 2)
    if host == socket.gethostname():
        return not Path(f"/proc/{pid}").exists()
    return time.time() - staging.stat().st_mtime > _DEAD_SECONDS
