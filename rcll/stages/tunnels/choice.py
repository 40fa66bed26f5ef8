"""Which of the good pairs become tunnels: the best of both ends, the strongest first, as far as there is room."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from rcll.stages.similarity import Floats
from rcll.stages.tunnels.context import ranks
from rcll.stages.tunnels.neighbours import Ints
from rcll.stages.tunnels.params import TunnelParams
from rcll.stages.tunnels.policy import Bools


@dataclass(frozen=True)
class Links:
    """Pairs of units of two banks.

    Attributes:
        left: (n_links,) row of one unit, smaller than that of the other.
        right: (n_links,) row of the other.
        score: (n_links,) float32, 0 to 1.
        rank: (n_links, 2) place of the other among left's links, and of the first among right's; the best is 1.
    """

    left: Ints
    right: Ints
    score: Floats
    rank: Ints

    def take(self, which: Ints | Bools) -> "Links":
        """Some of the links."""
        return Links(self.left[which], self.right[which], self.score[which], self.rank[which])

    def __add__(self, other: "Links") -> "Links":
        return Links(
            np.concatenate([self.left, other.left]),
            np.concatenate([self.right, other.right]),
            np.concatenate([self.score, other.score]),
            np.concatenate([self.rank, other.rank]),
        )


def mutual_links(left: Ints, right: Ints, score: Floats, n_mutual: int) -> Links:
    """Links that are among the ``n_mutual`` best of both ends."""
    rank = ranks(np.concatenate([left, right]), np.concatenate([right, left]), np.concatenate([score, score]))
    both = rank.reshape(2, -1).T + 1
    return Links(left, right, score, both).take(np.asarray((both <= n_mutual).all(axis=1)))


def copy_links(left: Ints, right: Ints) -> Links:
    """Links of copies, which are each other's best."""
    return Links(left, right, np.ones(len(left), np.float32), np.ones((len(left), 2), np.intp))


def choose_links(links: Links, bank: Ints, family: Ints, params: TunnelParams) -> Links:
    """Take the strongest first, as far as units and pairs of banks have room; a family links two banks once.

    Args:
        links: each pair once.
        bank: (n_units,) bank of each unit.
        family: (n_units,) family of each unit (``copies.families``).
        params: how many.
    """
    of_unit, of_banks, of_family = Counter[int](), Counter[tuple[int, int]](), set[tuple[int, int, int]]()
    chosen: list[int] = []
    order = np.lexsort((links.right, links.left, -links.score))
    for link in order.tolist():
        left, right = int(links.left[link]), int(links.right[link])
        low, high = sorted((int(bank[left]), int(bank[right])))
        kin = (int(family[left]), low, high) if family[left] == family[right] else None
        if max(of_unit[left], of_unit[right]) >= params.per_unit or of_banks[low, high] >= params.per_pair_of_banks:
            continue
        if kin in of_family:
            continue
        if kin:
            of_family.add(kin)
        of_unit.update((left, right))
        of_banks[low, high] += 1
        chosen.append(link)
    return links.take(np.array(sorted(chosen), dtype=np.intp))
