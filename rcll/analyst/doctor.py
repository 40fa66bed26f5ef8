"""Judges the facts of a tenant: each finding with its severity and what to do. Pure."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from rcll.store.doctor import HUGE_BYTES, INDEXED_UNITS, Facts

Severity = Literal["broken", "warning", "note"]

#: What each of sql/checks means where it finds rows; what is not named here is broken.
_OFFENCES: dict[str, tuple[Severity, str]] = {
    "label_differs_from_ledger": ("note", "somebody changed labels since the last run; the next one keeps them"),
    "closet_source_differs": ("note", "closets are stale and not shown; the next run refreshes them"),
    "run_without_end": ("warning", "runs were killed; the next run marks them as failed and finishes their work"),
}
_MANY_DUPLICATES, _MANY_MISSING = 0.05, 0.01
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Ailment:
    """One finding about a tenant; ``n`` counts what is affected, where anything can be counted."""

    schema: str
    severity: Severity
    code: str
    n: int | None
    message: str
    todo: str


def examine(facts: Facts, *, rooms: Collection[str], halls: Collection[str]) -> list[Ailment]:
    """Find what is broken, what to look at, and what is worth knowing, in this order.

    Args:
        facts: of one tenant.
        rooms: names that the taxonomy knows; others are reported, and kept.
        halls: the same for halls.
    """
    parts = (_versions(facts), _migrations(facts), _units(facts), _vectors(facts), _own(facts), _hot(facts))
    found = [ailment for part in parts for ailment in part]
    found += [*_unknown(facts, "room", facts.rooms, rooms), *_unknown(facts, "hall", facts.halls, halls)]
    order: list[Severity] = ["broken", "warning", "note"]
    return sorted(found, key=lambda ailment: order.index(ailment.severity))


def _versions(facts: Facts) -> Iterator[Ailment]:
    version = f"{facts.postgresql // 10_000}.{facts.postgresql % 10_000}"
    message = f"{facts.kind} database, PostgreSQL {version}, pgvector {facts.pgvector}, {facts.n_units:,} units"
    yield Ailment(facts.schema, "note", "database", facts.n_units, message, "nothing to do")


def _migrations(facts: Facts) -> Iterator[Ailment]:
    if facts.refusal:
        yield Ailment(facts.schema, "broken", "migrations", None, facts.refusal, "install the rcll that it names")
    elif facts.pending:
        message = f"{len(facts.pending)} migrations are pending: {', '.join(facts.pending)}"
        todo = "run rcll migrate, or rcll reorganize, which does it first"
        yield Ailment(facts.schema, "warning", "pending_migrations", len(facts.pending), message, todo)


def _units(facts: Facts) -> Iterator[Ailment]:
    if facts.n_empty:
        message = f"{facts.n_empty:,} units have no text, or a blank one; no rule can file them"
        yield Ailment(facts.schema, "note", "empty_units", facts.n_empty, message, "delete them in the memory server")
    if facts.n_huge:
        message = (
            f"{facts.n_huge:,} units have more than {HUGE_BYTES // 1000} kB of text, the largest "
            f"{facts.largest_bytes / 1e6:.1f} MB; they are read in part only"
        )
        yield Ailment(
            facts.schema, "warning", "huge_units", facts.n_huge, message, "split or delete them at the source"
        )
    if facts.n_units and facts.n_duplicates / facts.n_units >= _MANY_DUPLICATES:
        share = facts.n_duplicates / facts.n_units
        message = f"{share:.0%} of the units repeat a text of the same bank word for word"
        todo = 'see rcll sql "FROM near_duplicates"; closets condense what repeats'
        yield Ailment(facts.schema, "warning", "duplicates", facts.n_duplicates, message, todo)


def _vectors(facts: Facts) -> Iterator[Ailment]:
    n_missing = facts.dims.get(None, 0)
    lengths = {dims: n for dims, n in facts.dims.items() if dims is not None}
    if n_missing:
        many = n_missing / facts.n_units >= _MANY_MISSING
        message = f"{n_missing:,} units have no embedding; no search finds them, no closet or tunnel takes them"
        todo = "let the memory server embed them"
        yield Ailment(facts.schema, "warning" if many else "note", "missing_embeddings", n_missing, message, todo)
    if len(lengths) > 1:
        found = ", ".join(f"{dims} ({n:,} units)" for dims, n in lengths.items())
        message = f"embeddings have several lengths: {found}; expected one"
        yield Ailment(
            facts.schema, "broken", "mixed_dimensions", sum(lengths.values()), message, "embed all with one model"
        )
    elif lengths and facts.column_dims is None:
        message = "the embedding column takes vectors of any length; closets and snapshots leave vectors out"
        todo = f"ALTER TABLE memory_units ALTER embedding TYPE vector({next(iter(lengths))})"
        yield Ailment(facts.schema, "warning", "untyped_embeddings", None, message, todo)
    for bank, n_units in list(facts.unindexed_banks.items())[:_NAMED]:
        message = f"bank '{bank}' has {n_units:,} vectors and no vector index ({INDEXED_UNITS:,} or more need one)"
        todo = "let the memory server make the bank's indexes, or CREATE INDEX CONCURRENTLY … USING hnsw"
        yield Ailment(facts.schema, "warning", "missing_index", n_units, message, todo)


def _own(facts: Facts) -> Iterator[Ailment]:
    counted: tuple[tuple[str, Severity, int, str, str], ...] = (
        (
            "ledger_orphans",
            "note",
            facts.n_ledger_orphans,
            "ledger rows name units that are gone",
            "nothing: they wait",
        ),
        ("source_orphans", "note", facts.n_source_orphans, "sources of closets are gone", "run rcll reorganize"),
        (
            "tunnel_banks",
            "warning",
            facts.n_tunnel_strangers,
            "tunnels name another bank than their unit stands in",
            "nothing is shown wrongly, as the unit's bank counts; run rcll reorganize",
        ),
    )
    for code, severity, n, message, todo in counted:
        if n:
            yield Ailment(facts.schema, severity, code, n, f"{n:,} {message}", todo)
    for name, n in facts.offences.items():
        severity, todo = _OFFENCES.get(
            name, ("broken", f"see sql/checks/{name}.sql; run rcll reorganize, then look again")
        )
        yield Ailment(facts.schema, severity, name, n, f"check {name} finds {n:,} rows; expected none", todo)
    for bank, holder, since in facts.leases:
        message = f"bank '{bank}' is in use by {holder} since {since:%Y-%m-%d %H:%M:%S}"
        yield Ailment(facts.schema, "note", "lease", None, message, "a run is at work; wait for it")


def _hot(facts: Facts) -> Iterator[Ailment]:
    """What makes an update of a label go into every index again."""
    for index in facts.label_indexes:
        message = f"index {index} holds a label, so no update of a label can be HOT"
        yield Ailment(facts.schema, "warning", "label_index", None, message, f"DROP INDEX CONCURRENTLY {index}")
    for trigger in facts.triggers:
        message = f"trigger {trigger} fires on every update of a unit"
        todo = "see that it leaves rows alone whose labels alone change, updated_at above all"
        yield Ailment(facts.schema, "warning", "trigger", None, message, todo)
    for who, seconds in facts.horizon.items():
        age = f" for {seconds:,.0f} s" if seconds else ""
        message = f"{who} keeps old row versions alive{age}; updates meanwhile cannot be HOT"
        yield Ailment(facts.schema, "warning", "old_snapshot", None, message, "end it before a backfill")


def _unknown(facts: Facts, field: str, found: dict[str | None, int], known: Collection[str]) -> Iterator[Ailment]:
    strange = {name: n for name, n in found.items() if name is not None and name not in known}
    if strange:
        largest = sorted(strange.items(), key=lambda item: (-item[1], item[0]))
        named = ", ".join(f"'{name[:40]}' ({n:,})" for name, n in largest[:_NAMED])
        message = f"{len(strange)} {field}s are in no taxonomy: {named}; they are kept"
        todo = f"add the {field} to your taxonomy, or relabel with rcll label"
        yield Ailment(facts.schema, "note", f"unknown_{field}s", sum(strange.values()), message, todo)
