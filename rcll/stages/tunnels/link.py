"""Finds what two banks both know: mutual best matches with shared words, few and explained."""

import json
from collections import Counter
from dataclasses import dataclass

import numpy as np
import polars as pl

from rcll.errors import RcllError
from rcll.frames import LINK_UNITS, TUNNELS, require_schema
from rcll.stages.similarity import Floats, pair_cosines
from rcll.stages.tunnels.context import agreement, likeness, ranks
from rcll.stages.tunnels.copies import Copies, copied_pairs, families, fold_copies
from rcll.stages.tunnels.neighbours import Ints, add_pairs, centred, nearest_pairs, sample_cosines
from rcll.stages.tunnels.params import TunnelParams
from rcll.stages.tunnels.policy import Bools
from rcll.stages.tunnels.relation import relate
from rcll.stages.tunnels.terms import Terms, weigh_terms

#: Shared words that are stored with a tunnel.
_SHOWN_TERMS = 5


@dataclass(frozen=True)
class _Room:
    """The units of a room that take part: one a bank and wording, sorted by unit_id."""

    units: pl.DataFrame
    bank: Ints
    vectors: Floats
    terms: Terms
    copies: Copies


@dataclass(frozen=True)
class _Links:
    """Pairs that may become tunnels, with what speaks for them; all (n_links,)."""

    left: Ints
    right: Ints
    score: Floats
    rank: Ints  # (n_links, 2) place of each among the other's matches, the best 1

    def take(self, which: Ints | Bools) -> "_Links":
        return _Links(self.left[which], self.right[which], self.score[which], self.rank[which])


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
    if not len(room.bank):
        return pl.DataFrame(schema=TUNNELS)
    return _as_frame(room, *_find(room, allowed, params))


def _prepare(units: pl.DataFrame, embeddings: Floats, allowed: Bools, names: pl.Series) -> _Room:
    bank = names.search_sorted(units["bank_id"]).to_numpy().astype(np.intp)
    order = units["unit_id"].arg_sort().to_numpy()
    order = order[np.asarray(allowed.any(axis=1))[bank[order]]]
    texts = units["text"].fill_null("")
    copies = fold_copies(texts[order].to_list(), bank[order])
    rows = order[copies.first]
    return _Room(units[rows], bank[rows], centred(embeddings[rows]), weigh_terms(texts[rows].to_list()), copies)


def _find(room: _Room, allowed: Bools, params: TunnelParams) -> tuple[_Links, Bools]:
    """The tunnels, and which units are one of a series."""
    usual = sample_cosines(room.vectors, params.seed)
    chance = params.max_chance / max(2, len(room.bank))
    floor = usual.exceeded_by(chance)
    pairs = nearest_pairs(room.vectors, room.bank, allowed, floor, params)
    pairs = add_pairs(pairs, room.terms.together(params.n_together), room.vectors, room.bank, allowed, floor)
    rarity = room.terms.shared(pairs.left, pairs.right)
    alike = likeness((pairs.cosine - usual.mean) / usual.spread, rarity)
    agree = agreement(pairs, alike, len(room.bank), params.friends)
    share = room.terms.share(pairs.left, pairs.right, rarity)
    retold = share >= params.near_identical
    family, boilerplate = families(room.copies, pairs, retold)
    one_family = family[pairs.left] == family[pairs.right]
    good = (agree >= params.min_agreement) & (rarity > 0) & (len(room.bank) ** -rarity <= chance)
    good &= one_family | ~(boilerplate[pairs.left] | boilerplate[pairs.right])
    good |= retold | (room.copies.template[pairs.left] == room.copies.template[pairs.right])
    good &= allowed[room.bank[pairs.left], room.bank[pairs.right]]
    good &= room.copies.wording[pairs.left] != room.copies.wording[pairs.right]
    score = np.where(retold, np.maximum(agree, share), agree)
    links = _mutual(pairs.left[good], pairs.right[good], score[good], params)
    links = _with_copies(links, *copied_pairs(room.copies, room.bank, allowed, params.per_unit))
    series = np.bincount(room.copies.template, room.copies.n_units)[room.copies.template] > 2  # noqa: PLR2004 - a pair
    return _choose(links, room.bank, family, params), series


def _mutual(left: Ints, right: Ints, score: Floats, params: TunnelParams) -> _Links:
    """Links that are among the best of both ends."""
    rank = ranks(np.concatenate([left, right]), np.concatenate([right, left]), np.concatenate([score, score]))
    both = rank.reshape(2, -1).T + 1
    return _Links(left, right, score, both).take(np.asarray((both <= params.n_mutual).all(axis=1)))


def _with_copies(links: _Links, left: Ints, right: Ints) -> _Links:
    """Add copies, which are each other's best."""
    return _Links(
        np.concatenate([left, links.left]),
        np.concatenate([right, links.right]),
        np.concatenate([np.ones(len(left), np.float32), links.score]),
        np.concatenate([np.ones((len(left), 2), np.intp), links.rank]),
    )


def _choose(links: _Links, bank: Ints, family: Ints, params: TunnelParams) -> _Links:
    """Take the strongest first, as far as units and pairs of banks have room; a family links two banks once."""
    of_unit, of_banks, of_family = Counter[int](), Counter[tuple[int, int]](), set[tuple[int, int, int]]()
    chosen: list[int] = []
    order = np.lexsort((links.right, links.left, -links.score))
    for link, left, right in zip(order.tolist(), links.left[order].tolist(), links.right[order].tolist(), strict=True):
        low, high = sorted((int(bank[left]), int(bank[right])))
        if max(of_unit[left], of_unit[right]) >= params.per_unit or of_banks[low, high] >= params.per_pair_of_banks:
            continue
        if family[left] == family[right]:
            if (int(family[left]), low, high) in of_family:
                continue
            of_family.add((int(family[left]), low, high))
        of_unit.update((left, right))
        of_banks[low, high] += 1
        chosen.append(link)
    return links.take(np.array(sorted(chosen), dtype=np.intp))


def _as_frame(room: _Room, links: _Links, series: Bools) -> pl.DataFrame:
    texts, unit_ids, banks = (room.units[name].to_list() for name in ("text", "unit_id", "bank_id"))
    cosine = pair_cosines(room.vectors, links.left, room.vectors, links.right)
    has_vectors = np.asarray(room.vectors.any(axis=1))
    terms = room.terms.in_common(links.left, links.right, _SHOWN_TERMS)
    rows: list[tuple[str, str, str, str, str, float, str]] = []
    for i, (left, right) in enumerate(zip(links.left.tolist(), links.right.tolist(), strict=True)):
        relation = relate(texts[left], texts[right], is_series=bool(series[left]))
        similarity = round(float(cosine[i]), 3) if has_vectors[left] and has_vectors[right] else None
        evidence = {
            "rank": links.rank[i].tolist(),
            "rule": relation.rule,
            "similarity": similarity,
            "terms": terms[i],
        }
        stored = json.dumps(evidence, ensure_ascii=False, separators=(",", ":"))
        ends = (unit_ids[left], unit_ids[right], banks[left], banks[right])
        rows.append((*ends, relation.relationship, round(float(links.score[i]), 4), stored))
    return pl.DataFrame(rows, schema=TUNNELS, orient="row").sort(TUNNELS.names()[:2])
