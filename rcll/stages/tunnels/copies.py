"""Texts that stand in a room more than once: copies word for word, and families that differ in next to nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from rcll.stages.similarity import MAX_COMPARED_CHARS
from rcll.stages.tunnels.neighbours import Ints, Pairs
from rcll.stages.tunnels.policy import Bools

#: Units of one wording (or nearly) from which on it is boilerplate: three banks, or one bank repeating itself.
_BOILERPLATE = 3


@dataclass(frozen=True)
class Copies:
    """One unit of each bank for each wording.

    Attributes:
        first: (n,) rows of the texts that stand for their bank's copies, ascending; blank texts are absent.
        wording: (n,) code of the text without case and punctuation.
        template: (n,) code of the text with every digit alike.
        n_units: (n,) how many units each stands for.
    """

    first: Ints
    wording: Ints
    template: Ints
    n_units: Ints

    def is_series(self) -> Bools:
        """Whether more than two units have a text's template, as the lines of a log have, (n,)."""
        return np.bincount(self.template, self.n_units)[self.template] > 2  # noqa: PLR2004 - a pair


def fold_copies(texts: Sequence[str], bank: Ints) -> Copies:
    """Keep the first unit of each bank and wording."""
    plain = (
        pl.col("text")
        .str.slice(0, MAX_COMPARED_CHARS)
        .str.normalize("NFKC")
        .str.to_lowercase()
        .str.replace_all(r"[^\p{L}\p{M}\p{N}]+", " ")
        .str.strip_chars()
    )
    frame = pl.DataFrame({"text": pl.Series(texts, dtype=pl.String), "bank": bank}).with_row_index("row")
    frame = frame.with_columns(plain=plain).filter(pl.col("plain") != "")
    kept = frame.group_by("bank", "plain").agg(pl.col("row").min(), n_units=pl.len()).sort("row")
    kept = kept.with_columns(
        wording=pl.col("plain").rank("dense"), template=pl.col("plain").str.replace_all(r"\p{N}", "0").rank("dense")
    )
    return Copies(*(kept[name].to_numpy().astype(np.intp) for name in ("row", "wording", "template", "n_units")))


def copied_pairs(copies: Copies, bank: Ints, allowed: Bools, per_unit: int) -> tuple[Ints, Ints]:
    """Pairs of one wording in banks that may be linked, at most ``per_unit`` a unit, by row."""
    order = np.argsort(copies.wording, kind="stable")
    bounds = np.flatnonzero(np.diff(copies.wording[order])) + 1
    degree = np.zeros(len(order), dtype=np.intp)
    pairs: list[tuple[int, int]] = []
    for group in np.split(order, bounds):
        for place, unit in enumerate(group[:-1]):
            others = group[place + 1 :]
            free = others[(degree[others] < per_unit) & allowed[bank[unit], bank[others]]]
            chosen = free[: per_unit - degree[unit]]
            degree[chosen] += 1
            degree[unit] += len(chosen)
            pairs += [(int(unit), int(other)) for other in chosen]
    found = np.array(sorted(pairs), dtype=np.intp).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def families(copies: Copies, pairs: Pairs, retold: Bools) -> tuple[Ints, Bools]:
    """Family of each unit (one template, or near-identical by links), and whether it is boilerplate, both (n,)."""
    n = len(copies.first)
    order = np.argsort(copies.template, kind="stable")
    alike = np.flatnonzero(np.diff(copies.template[order]) == 0)
    one = np.concatenate([order[alike], pairs.left[retold]])
    other = np.concatenate([order[alike + 1], pairs.right[retold]])
    graph = coo_matrix((np.ones(len(one), np.int8), (one, other)), (n, n))
    family = connected_components(graph, directed=False)[1].astype(np.intp)
    return family, np.bincount(family, copies.n_units)[family] >= _BOILERPLATE
