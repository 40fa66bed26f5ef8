"""From extracted units to planned labels, one Parquet part at a time."""

import polars as pl
from upath import UPath

from rcll.frames import LABELS, TEXTS, UNITS
from rcll.stages.classify import ClassifyParams, classify_units
from rcll.stages.plan import PlanParams, needs_text, plan_labels
from rcll.store.parts import read_part, scan_parts, write_part
from rcll.taxonomy import Taxonomy


def labelling_hash(taxonomy: Taxonomy, *, use_layers: bool) -> str:
    """Fingerprint of everything that decides a label besides the text; the ledger keeps it."""
    return f"{taxonomy.hash}+layers" if use_layers else taxonomy.hash


def plan_part(units_path: UPath, taxonomy: Taxonomy, *, use_layers: bool) -> UPath:
    """Classify a part and compare it with bank and ledger.

    Args:
        units_path: Parquet in frames.UNITS, as extract_units wrote it.
        taxonomy: the rules.
        use_layers: let layer rules decide.

    Returns:
        Path of the plan part beside it: the output of plan_labels, one row a unit, no texts.
    """
    units = read_part(units_path).select(UNITS.names())
    fingerprint = labelling_hash(taxonomy, use_layers=use_layers)
    texts = units.filter(needs_text(fingerprint)).select(TEXTS.names())
    labels = (
        pl.DataFrame(schema=LABELS)
        if texts.is_empty()
        else classify_units(texts, taxonomy, ClassifyParams(use_layers=use_layers))
    )
    planned = plan_labels(units, labels, PlanParams(taxonomy_hash=fingerprint))
    path = units_path.with_name(units_path.name.replace("units-", "plan-"))
    return write_part(planned, path)


def read_plan(parts: list[UPath]) -> pl.LazyFrame:
    """All parts of a plan as one lazy frame; empty where there are no parts."""
    if parts:
        return scan_parts(parts)
    return plan_labels(pl.DataFrame(schema=UNITS), pl.DataFrame(schema=LABELS), PlanParams(taxonomy_hash="")).lazy()
