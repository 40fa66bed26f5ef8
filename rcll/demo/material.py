"""Reads the demo's hand-written sentences: ``material/<bank folder>/<room>.toml``, ``banks.toml``, ``slots.toml``."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, cast

_FOLDER = Path(__file__).parent / "material"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bank:
    """One legacy bank and who writes into it."""

    folder: str
    id: str
    name: str
    people: tuple[str, ...]
    tags: tuple[str, ...]
    agents: tuple[str, ...]
    contexts: tuple[str, ...]
    office_hours: bool = False
    """Whether units are written on workdays by day only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matter:
    """One narrow matter in several wordings, from which ``n`` units are made.

    ``says`` are whole statements of it, ``more`` are details that may follow one. The author's ``room``
    serves tests only. ``verbatim`` marks routine notes, which real banks repeat word for word.
    """

    bank: Bank
    room: str
    id: str
    says: tuple[str, ...]
    more: tuple[str, ...] = ()
    n: int = 1
    since: date
    until: date
    verbatim: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Explicit:
    """A unit whose label somebody sets by hand."""

    matter: Matter
    room: str
    hall: str
    layer: int


@cache
def read_banks() -> tuple[Bank, ...]:
    """The three banks, in the order of ``banks.toml``."""
    return tuple(Bank(**_fields(bank)) for bank in _read("banks.toml")["bank"])


@cache
def read_slots() -> Mapping[str, tuple[str, ...]]:
    """Possible values of each slot that is a plain list."""
    return {name: tuple(values) for name, values in _read("slots.toml").items()}


def read_tunnel_pairs() -> tuple[tuple[str, str], ...]:
    """Pairs of banks between which the demo allows tunnels."""
    pairs = (pair["banks"] for pair in _read("banks.toml")["tunnel_pair"])
    return tuple((left, right) for left, right in pairs)


@cache
def read_explicit() -> tuple[Explicit, ...]:
    """Units that get an explicit label."""
    banks = {bank.folder: bank for bank in read_banks()}
    return tuple(
        Explicit(
            matter=_matter(
                banks[entry["folder"]], entry["label"]["room"], {"id": entry["id"], "says": [entry["text"]]}
            ),
            **entry["label"],
        )
        for entry in _read("banks.toml")["explicit"]
    )


@cache
def read_matters() -> tuple[Matter, ...]:
    """Every matter of every bank; a single sentence is a matter of one unit."""
    found: list[Matter] = []
    for bank in read_banks():
        for path in sorted((_FOLDER / bank.folder).glob("*.toml")):
            content = _read(path.relative_to(_FOLDER))
            singles = content.get("singles", {"list": []})["list"]
            entries = [{"id": f"single-{path.stem}-{i}", "says": [text]} for i, text in enumerate(singles)]
            found += [_matter(bank, path.stem, entry) for entry in [*content.get("matter", []), *entries]]
    return (*found, *(explicit.matter for explicit in read_explicit()))


def _matter(bank: Bank, room: str, entry: Mapping[str, Any]) -> Matter:
    story = _read("banks.toml")
    span = {key: story[key] for key in ("since", "until")}
    return Matter(bank=bank, room=room, **span | _fields(entry))


def _fields(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(cast("list[str]", value)) if isinstance(value, list) else value for key, value in table.items()}


@cache
def _read(path: str | Path) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / path).read_text(encoding="utf-8"))
