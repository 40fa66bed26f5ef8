"""Notices what keeps PostgreSQL from HOT updates, and says it in one line with the number."""

from dataclasses import dataclass, field

from rcll.store.catalog import Tenant
from rcll.store.connect import Connection
from rcll.store.places import units_name
from rcll.store.sql import query

#: A snapshot that is older than a round of updates keeps the tuples of that round from being pruned.
OLD_SECONDS = 5.0
#: The same for a replication slot, whose age only shows in transactions.
OLD_TRANSACTIONS = 1_000
#: A round of HOT candidates under this share shows that pages are not pruned.
LEAST_SHARE = 0.5
#: Updates that make such a share mean anything.
LEAST_ROWS = 200
_NAMED = 3


@dataclass(slots=True)
class HotWatch:
    """Counts updates and HOT ones, and decides whether pages are worth going through in rounds."""

    conn: Connection
    tenant: Tenant
    n_updated: int = 0
    n_hot: int = 0
    obstacles: dict[str, float | None] = field(default_factory=dict[str, float | None])
    _later_updated: int = 0
    _later_hot: int = 0

    def count(self, n_updated: int, n_hot: int, *, leaves_page: bool) -> None:
        """Add one transaction; tuples that leave their page are not expected to be HOT."""
        self.n_updated += n_updated
        self.n_hot += n_hot
        if not leaves_page:
            self._later_updated += n_updated
            self._later_hot += n_hot

    def can_be_hot(self) -> bool:
        """Whether rounds pay in the next range of pages; asks what is in the way, once a range."""
        hindered = self._later_updated >= LEAST_ROWS and self._later_hot < LEAST_SHARE * self._later_updated
        self._later_updated = self._later_hot = 0
        found = self._look()
        if hindered and not found:
            found = {"snapshots that were over too soon, or that this role may not see (pg_read_all_stats)": None}
        self.obstacles |= found
        return not found

    @property
    def hot_share(self) -> float | None:
        """Share of the updates that touched no index; None where nothing was updated."""
        return round(self.n_hot / self.n_updated, 3) if self.n_updated else None

    def note(self) -> str | None:
        """What was in the way, where anything was."""
        if not self.obstacles or self.hot_share is None:
            return None
        named = [f"{who}, open for {seconds:.0f} s" if seconds else who for who, seconds in self.obstacles.items()]
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        return (
            f"{self.hot_share:.0%} of {self.n_updated:,} updates were HOT, expected 80 % or more; the others were "
            f"inserted into every index again; in the way: {', '.join(named[:_NAMED])}{more}"
        )

    def _look(self) -> dict[str, float | None]:
        """What is in the way now: its name, and for how many seconds where that is known."""
        units = {"units": units_name(self.conn, self.tenant)}
        indexes = self.conn.execute(query("label_indexes"), units).fetchall()
        old = {"seconds": OLD_SECONDS, "transactions": OLD_TRANSACTIONS}
        holders = self.conn.execute(query("horizon_holders"), old).fetchall()
        return {f"index {name}, which holds a label": None for (name,) in indexes} | dict(holders)
