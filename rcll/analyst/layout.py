"""Where a snapshot's files lie, and how they are found again.

::

    DIR/schema=public/snapshot=20260601T023000000Z/manifest.json
                                                   units/bank=team-a/part-00000.parquet
                                                   units/bank=~several/part-00000.parquet
                                                   runs/part-00000.parquet

A snapshot is what bears a manifest; everything else is a piece that somebody left behind. The folder of a bank only
helps a reader to skip files: the truth is the column bank_id.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rcll.errors import InputError

MANIFEST = "manifest.json"
#: Raised when a reader of today cannot make sense of the files any more.
FORMAT = 1
#: Folder of banks that are too small for files of their own. No bank is encoded to a name with '~'.
SEVERAL = "~several"
_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class BankPart:
    """One bank in a snapshot: how many units, read when, and how long the server had to hold that state."""

    bank_id: str
    folder: str
    n_units: int
    read_at: str
    seconds_held: float


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a snapshot holds; written last, so that whoever finds it finds a whole snapshot.

    ``tables`` maps a table to its counts of rows, files and bytes.
    """

    format: int
    snapshot_id: str
    schema: str
    kind: str
    rcll_version: str
    made_at: str
    seconds: float
    has_texts: bool
    has_embeddings: bool
    migrated: bool
    tables: dict[str, dict[str, int]]
    banks: list[BankPart]

    @property
    def longest_hold(self) -> float:
        """Seconds for which one state of the database was held at most."""
        return max((bank.seconds_held for bank in self.banks), default=0.0)

    def as_json(self) -> str:
        """Text of manifest.json."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A whole snapshot and where it lies."""

    path: Path
    manifest: Manifest


def bank_folder(bank: str) -> str:
    """Name of a bank's folder: percent-encoded, cut with a digest where a file system would refuse its length."""
    encoded = quote(bank, safe="").replace("~", "%7E")
    if len(encoded) > _LONGEST_NAME:
        digest = hashlib.sha256(bank.encode()).hexdigest()[:16]
        encoded = f"{encoded[: _LONGEST_NAME - 40].rstrip('%')}~{digest}"
    return f"bank={encoded}"


def schema_folder(schema: str) -> str:
    """Name of a tenant's folder."""
    return f"schema={quote(schema, safe='').replace('~', '%7E')}"


def list_snapshots(folder: Path, schema: str | None = None) -> list[Snapshot]:
    """Whole snapshots of one tenant under a folder, oldest first.

    Args:
        folder: as given to ``rcll snapshot``, or one snapshot in it.
        schema: which tenant; None where there is but one.

    Raises:
        InputError: no whole snapshot, several tenants and none named, or a manifest that cannot be read.
    """
    if (folder / MANIFEST).is_file():
        return [Snapshot(folder, _read(folder / MANIFEST))]
    found = [Snapshot(file.parent, _read(file)) for file in sorted(folder.glob(f"schema=*/snapshot=*/{MANIFEST}"))]
    if not found:
        raise InputError(f"{folder} holds no whole snapshot; expected one; make it with rcll snapshot {folder}")
    schemas = sorted({snapshot.manifest.schema for snapshot in found})
    if schema is None and len(schemas) > 1:
        raise InputError(f"{folder} holds snapshots of schemas {', '.join(schemas)}; expected one; say --schema")
    if schema is not None and schema not in schemas:
        raise InputError(f"{folder} holds no snapshot of schema '{schema}'; expected one of {', '.join(schemas)}")
    return [each for each in found if schema in (None, each.manifest.schema)]


def table_files(snapshots: Sequence[Snapshot], table: str) -> list[Path]:
    """Parquet files of a table, sorted.

    Raises:
        InputError: files are missing that the manifest counts.
    """
    files: list[Path] = []
    for snapshot in snapshots:
        held = sorted((snapshot.path / table).rglob("*.parquet"))
        counted = snapshot.manifest.tables.get(table, {}).get("n_files", 0)
        if len(held) != counted:
            raise InputError(
                f"snapshot {snapshot.path} has {len(held)} files of {table}; expected {counted}, as its manifest says; "
                f"copy it again or make a new one"
            )
        files += held
    return files


def _read(file: Path) -> Manifest:
    try:
        values: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        number = values["format"]
        if number == FORMAT:
            values["banks"] = [BankPart(**bank) for bank in values["banks"]]
            return Manifest(**values)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{file} cannot be read ({type(error).__name__}); make a new snapshot") from None
    raise InputError(f"{file} has format {number}; expected {FORMAT}; read it with the rcll that wrote it")
