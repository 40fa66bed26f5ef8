"""Finds what two banks both know: mutual best matches with shared words, few and explained."""

import json
from dataclasses import dataclass

import numpy as np
import polars as pl

from rcll.errors import RcllError
from rcll.frames import LINK_UNITS, TUNNELS, require_schema
from rcll.stages.similarity import Floats, pair_cosines
from rcll.stages.tunnels.choice import Links, choose_links, copy_links, mutual_links
from rcll.stages.tunnels.context import agreement, likeness
from rcll.stages.tunnels.copies import Copies, copied_pairs, families, fold_copies
from rcll.stages.tunnels.neighbours import Ints, Pairs, add_pairs, centred, nearest_pairs, sample_cosines
from rcll.stages.tunnels.params import TunnelParams
from rcll.stages.tunnels.policy import Bools
from rcll.stages.tunnels.relation import relate
from rcll.stages.tunnels.terms import Terms, weigh_terms

#: Shared words that are stored with a tunnel.
_SHOWN_TERMS = 5
#: Shared rarity beyond which more says no more: three or four rare words.
_MUCH_RARITY = 3.0


@dataclass(frozen=True)
class _Room:
    """The units of a room that take part: one a bank and wording, sorted by unit_id."""

    units: pl.DataFrame
    bank: Ints
    vectors: Floats
    terms: Terms
    copies: Copies

    def __len__(self) -> int:
        return len(self.bank)


def link_units(units: pl.DataFrame, embeddings: Floats, allowed: Bools, params: TunnelParams) -> pl.DataFrame:
    """Find the tunnels of one room between the banks that may be linked.

    Args:
        units: frames.LINK_UNITS, a unit once, any order.
        embeddings: (n_units, n_dims) float32; row i belongs to unit i; NaN or zero where missing. A unit
            without a vector is linked with its copies only.
        allowed: (n_banks, n_banks) bool over the sorted distinct bank ids of the units, symmetric.
        params: how near, and how many.

    Returns:
        frames.TUNNELS, sorted by source, target and relationship; the same for any order of the units.

    Raises:
        RcllError: other columns than expected, or arrays that do not fit the units.
    """
    units = require_schema(units, LINK_UNITS, "units")
    names = units["bank_id"].unique().sort()
    if len(embeddings) != len(units):
        raise RcllError(f"{len(embeddings)} embedding rows for {len(units)} units; expected one each")
    if allowed.shape != (len(names), len(names)):
        raise RcllError(f"the matrix of allowed banks is {allowed.shape}; expected {len(names)} banks both ways")
    room = _prepare(units, embeddings, allowed, names)
    if not len(room):
        return pl.DataFrame(schema=TUNNELS)
    return _as_frame(room, _find(room, allowed, params))


def _prepare(units: pl.DataFrame, embeddings: Floats, allowed: Bools, names: pl.Series) -> _Room:
    bank = names.search_sorted(units["bank_id"]).to_numpy().astype(np.intp)
    order = units["unit_id"].arg_sort().to_numpy()
    order = order[np.asarray(allowed.any(axis=1))[bank[order]]]
    texts = units["text"].fill_null("")
    copies = fold_copies(texts[order].to_list(), bank[order])
    rows = order[copies.first]
    return _Room(units[rows], bank[rows], centred(embeddings, rows), weigh_terms(texts[rows].to_list()), copies)


def _find(room: _Room, allowed: Bools, params: TunnelParams) -> Links:
    """The tunnels of a room.

    A pair is good where vectors and shared words are nearer than chance gives and the surroundings agree, or
    where one text retells the other. Boilerplate is linked with its like alone.
    """
    usual = sample_cosines(room.vectors, params.seed)
    chance = params.max_chance / len(room)
    floor = usual.exceeded_by(chance)
    pairs = nearest_pairs(room.vectors, room.bank, allowed, floor, params)
    pairs = add_pairs(pairs, room.terms.together(params.n_together), room.vectors, room.bank, allowed, floor)
    rarity = room.terms.shared(pairs.left, pairs.right)
    alike = likeness((pairs.cosine - usual.mean) / usual.spread, rarity)
    agree = agreement(pairs, alike, len(room), params.friends)
    share = room.terms.share(pairs.left, pairs.right)
    retold = (share >= params.near_identical) | (room.copies.template[pairs.left] == room.copies.template[pairs.right])
    family, boilerplate = families(room.copies, pairs, retold)
    needed = params.min_agreement + params.per_rarity * (1 - np.minimum(rarity, _MUCH_RARITY))
    good = (agree >= needed) & (rarity > 0) & (len(room) ** -rarity <= chance)
    good &= ~(boilerplate[pairs.left] | boilerplate[pairs.right])
    good = (good | retold) & _may_link(room, pairs, allowed)
    score = np.where(retold, np.maximum(agree, share), agree)
    links = mutual_links(pairs.left[good], pairs.right[good], score[good], params.n_mutual)
    links = copy_links(*copied_pairs(room.copies, room.bank, allowed, params.per_unit)) + links
    return choose_links(links, room.bank, family, params)


def _may_link(room: _Room, pairs: Pairs, allowed: Bools) -> Bools:
    """Pairs across banks that may be linked, less copies, which are linked as such."""
    across = allowed[room.bank[pairs.left], room.bank[pairs.right]]
    return across & (room.copies.wording[pairs.left] != room.copies.wording[pairs.right])


def _as_frame(room: _Room, links: Links) -> pl.DataFrame:
    texts, unit_ids, banks = (room.units[name].to_list() for name in ("text", "unit_id", "bank_id"))
    cosine = pair_cosines(room.vectors, links.left, room.vectors, links.right).round(3)
    has_vector: Bools = np.any(room.vectors, axis=1)
    both_have = has_vector[links.left] & has_vector[links.right]
    words = room.terms.in_common(links.left, links.right, _SHOWN_TERMS)
    is_series = room.copies.is_series()
    rows: list[tuple[str, str, str, str, str, float, str]] = []
    for i, (left, right) in enumerate(zip(links.left.tolist(), links.right.tolist(), strict=True)):
        relation = relate(texts[left], texts[right], is_series=bool(is_series[left]))
        similarity = round(float(cosine[i]), 3) if both_have[i] else None
        evidence = {"rule": relation.rule, "similarity": similarity, "rank": links.rank[i].tolist(), "terms": words[i]}
        stored = json.dumps(evidence, ensure_ascii=False, separators=(",", ":"))
        ends = (unit_ids[left], unit_ids[right], banks[left], banks[right])
        rows.append((*ends, relation.relationship, round(float(links.score[i]), 4), stored))
    return pl.DataFrame(rows, schema=TUNNELS, orient="row").sort("source_unit_id", "target_unit_id", "relationship")
