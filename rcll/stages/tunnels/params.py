"""What decides how many tunnels are dug, each with its reason."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TunnelParams:
    """How near two units must be, and how many tunnels they may have.

    ``bench/tunnels`` prints the figures behind the numbers; none of them belongs to one embedder, since
    cosines are counted in standard deviations of the room and words by their rarity in it.
    """

    per_unit: int = 3
    """Tunnels of one unit; more would bury its own text in a recall."""
    per_pair_of_banks: int = 500
    """Tunnels of one room between two banks; two that share more are one body of knowledge kept twice."""
    n_mutual: int = 4
    """Each must be among the other's so many best matches; one more than ``per_unit``, as some are capped away."""
    min_agreement: float = 0.32
    """Mean of how far two units' nearest units agree and of their best common friend, of two that share a rarity of
    one. From .25 on seven of ten tunnels are right in rooms of the labelled kind; harder rooms need the rest."""
    per_rarity: float = 0.04
    """What a unit of shared rarity takes off the agreement that is asked for, and the lack of one adds. Of tunnels
    that share one rare word four in ten are right, of those that share two six, three eight, four or more nine."""
    max_chance: float = 20
    """So many other units of the room may match as well by chance, by vectors alone and by shared words alone;
    their context then tells which do. Both checks grow stricter with the room."""
    near_identical: float = 0.8
    """Share of the content (by rarity) from which on two texts are one text retold; no context is asked then."""
    friends: tuple[int, ...] = (5, 12)
    """Sizes of the circle of mutual neighbours that is compared: a narrow matter has 4 to 8 units, and a wide
    circle sees those whose own neighbours are noisy."""
    n_neighbours: int = 12
    """Nearest units that are looked at, the own bank's among them; as many as the widest circle."""
    n_abroad: int = 6
    """Nearest units of linkable banks that are looked at, so that a crowded bank does not hide the others."""
    n_together: int = 8
    """A term that stands in so few units makes each two of them worth a look, wherever their vectors lie."""
    exact_units: int = 16_384
    """Up to so many units all pairs are compared; beyond, a unit meets those of the nearest cells."""
    cell_units: int = 512
    """Mean number of units in a cell."""
    n_cells: int = 24
    """Cells in which a unit looks for neighbours. Of 200,000 sentences 12 cells find .984 of the nearest, 16 find
    .988, 24 find .991 (bench/tunnels)."""
    seed: int = 0
    """Start of all draws (sampled pairs, cells), so that a room always gives the same tunnels."""
