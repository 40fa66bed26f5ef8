"""Files the units of a large table range of heap pages by range of heap pages.

Ranges are computed side by side and written one after the other by one page-ordered writer. Whatever was written
bears a ledger row and is passed over when the range is met again, so a killed backfill goes on where it stopped. A
unit that moves from a page not yet read to one that was is missed; the last pass looks for such by their ledger.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from upath import UPath

from rcll.store.extract import count_pages, count_unfiled, count_units, extract_pages, extract_units
from rcll.store.ledger import list_runs
from rcll.store.load import Loaded
from rcll.taxonomy import load_taxonomy
from rcll.walk.labels import labelling_hash, plan_part
from rcll.walk.place import Place
from rcll.walk.summary import summarise_plan

#: Units written in a second where no backfill of this database has told yet: two cores, eight units a page, six
#: vector indexes (bench/load.py).
USUAL_RATE = 8_000
_LOOKED_AT = 200
#: Units from which on a run tells the rate of the next.
_TELLING_UNITS = 10_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a backfill has before it; ``seconds`` is a guess from ``units_per_second``, pauses not counted."""

    n_units: int
    n_unfiled: int
    n_pages: int
    units_per_second: float
    seconds: float


@dataclass(slots=True)
class Totals:
    """What became of the parts so far; ``before`` and ``after`` map a field to its labels and their units."""

    n_units: int = 0
    n_explicit: int = 0
    n_written: int = 0
    n_recorded: int = 0
    n_hot: float = 0.0
    skipped: Counter[str] = field(default_factory=Counter[str])
    before: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    after: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    notes: dict[str, None] = field(default_factory=dict[str, None])
    waited: Counter[str] = field(default_factory=Counter[str])

    @property
    def n_done(self) -> int:
        """Units that are through: written, recorded or left out with a reason."""
        return self.n_written + self.n_recorded + self.skipped.total()

    def add(self, parts: list[UPath], loaded: Loaded) -> None:
        """Count parts that were written."""
        plan = summarise_plan(parts)
        self.n_units += plan.n_units
        self.n_explicit += plan.n_explicit
        self.n_written += loaded.n_written
        self.n_recorded += loaded.n_recorded
        self.n_hot += loaded.n_written * (loaded.hot_share or 0.0)
        self.skipped += Counter(plan.skipped) + Counter(loaded.skipped)
        self.waited.update(loaded.waited)
        self.notes |= dict.fromkeys(loaded.notes)
        for totals, counts in ((self.before, plan.before), (self.after, plan.after)):
            for label_field, labels in counts.items():
                totals[label_field] = totals.get(label_field, Counter()) + Counter(labels)

    def as_dict(self, seconds: float) -> dict[str, Any]:
        """As the run's row keeps it; the rate counts only where there was enough to tell."""
        tells = self.n_done >= _TELLING_UNITS
        return {
            "labels": {
                "n_units": self.n_units,
                "n_explicit": self.n_explicit,
                "before": {name: dict(labels.most_common()) for name, labels in self.before.items()},
                "after": {name: dict(labels.most_common()) for name, labels in self.after.items()},
            },
            "loaded": {
                "n_written": self.n_written,
                "n_recorded": self.n_recorded,
                "skipped": dict(self.skipped),
                "hot_share": round(self.n_hot / self.n_written, 3) if self.n_written else None,
                "notes": list(self.notes),
                "waited": {reason: round(spent, 1) for reason, spent in self.waited.items()},
            },
            "seconds": {"backfill": round(seconds, 1)},
            "units_per_second": round(self.n_done / seconds, 1) if tells else None,
        }


def estimate(place: Place, banks: list[str] | None, rate: float | None) -> Estimate:
    """Count what is to do, and guess how long it takes from the last backfill or the usual rate.

    Args:
        place: where.
        banks: whose units; None for all.
        rate: ceiling of units a second; None for none.
    """
    fingerprint = _fingerprint(place)
    speed = float(USUAL_RATE)
    with place.database.connect() as conn:
        n_pages = count_pages(conn, place.tenant)
        if place.tenant.migrated:
            n_units, n_unfiled = count_unfiled(conn, place.tenant, banks, fingerprint)
            past = list_runs(conn, place.tenant, limit=_LOOKED_AT)
            measured = [(run.summary or {}).get("units_per_second") for run in past if run.kind == "backfill"]
            speed = next(filter(None, measured), speed)
        else:
            n_units = n_unfiled = sum(count_units(conn, place.tenant, banks).values())
    speed = min(speed, rate or speed)
    return Estimate(n_units, n_unfiled, n_pages, speed, round(n_unfiled / speed, 1))


def page_ranges(n_pages: int, pages_per_range: int) -> Iterator[tuple[int, int]]:
    """Cut a table into ranges of pages."""
    for first in range(0, n_pages, pages_per_range):
        yield first, min(first + pages_per_range, n_pages)


def plan_pages(place: Place, banks: list[str] | None, pages: tuple[int, int], folder: UPath) -> UPath:
    """Read and classify the units of a range; returns the plan part."""
    units = extract_pages(
        place.database,
        place.tenant,
        banks=banks,
        taxonomy_hash=_fingerprint(place),
        pages=pages,
        path=folder / f"units-{pages[0]:012d}.parquet",
    )
    return _plan(place, units)


def plan_missed(place: Place, banks: list[str] | None, folder: UPath) -> list[UPath]:
    """Read and classify the units that today's rules have not filed, wherever they lie."""
    found = extract_units(
        place.database,
        place.tenant,
        banks=banks,
        taxonomy_hash=_fingerprint(place),
        folder=folder / "missed",
        only_unfiled=True,
    )
    return [_plan(place, units) for units in found]


def _plan(place: Place, units: UPath) -> UPath:
    part = plan_part(units, load_taxonomy(place.settings.taxonomy), use_layers=place.settings.layers)
    units.unlink()  # the texts are no longer needed
    return part


def _fingerprint(place: Place) -> str:
    return labelling_hash(load_taxonomy(place.settings.taxonomy), use_layers=place.settings.layers)
