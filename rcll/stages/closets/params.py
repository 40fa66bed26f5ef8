"""What decides how tight and how large groups are, each with its reason."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClosetParams:
    """How tight and how large groups are.

    Evidence that two units are about one matter is a sum of log odds. The numbers were chosen on six labelled sets of
    bench/groups and one more, each time by what is best on the other six (bench/closets prints the figures again);
    all seven agree on ``member_evidence``, and any stem weight from .2 to .35 does as well within .01 of F1.
    """

    member_evidence: float = 3.0
    """Mean evidence towards the other members that a member must have. Smaller finds more groups, larger finds
    purer ones; here about three in four pairs are right."""
    dense_weight: float = 0.65
    """Log odds per robust standard deviation of the cosine between centred vectors."""
    lexical_weight: float = 10.0
    """Log odds per unit of cosine between trigram rows."""
    lexical_weight_alone: float = 18.0
    """The same where most units have no vector."""
    stem_weight: float = 0.2
    """Part of the log odds that a shared stem has by its rarity."""
    shared_hall: float = 0.4
    """How often a pair of one matter bears the same hall for a reason and not by chance, before the room is seen. A
    hall that most of the room bears (the fallback) then says nothing; a rare one that two units share says much."""
    hall_pairs: float = 10.0
    """Pairs that it takes to change that belief by half; the labelled rooms show shares between 0 and .75."""
    baseline: float = 0.7
    """How much of a unit's likeness to its neighbourhood is taken from its evidence: in a room of thousands
    everybody has some near neighbour, and only a nearer one means something."""
    n_neighbours: int = 39
    """Units that make a neighbourhood; the labelled rooms are as large."""
    n_linked: int = 16
    """The nearest units that may draw a unit into their group; a group that fits has one of them."""
    n_own: int = 9
    """Nearest units that do not count towards the baseline, since they may be of the unit's own matter."""
    min_members: int = 3
    """A closet of two saves nobody any reading."""
    max_members: int = 40
    """More no longer fit one paragraph."""
    threshold: int = 200
    """Units from which on a room gets closets (``plan_closets``; ``group_units`` groups any room)."""
    keep_share: float = 0.8
    """A room keeps its closets until it falls this far below the threshold: no flapping at the edge."""
    by_hall: bool = False
    """Keep halls apart; off, since one matter often has a fact, a warning and an event."""
    exact_units: int = 4_096
    """Up to so many units all pairs are compared; beyond, a unit meets those of the nearest coarse cells."""
    cell_units: int = 800
    """Mean number of units in a coarse cell."""
    n_cells: int = 6
    """Cells in which a unit looks for neighbours."""
    seed: int = 0
    """Start of the coarse cells, so that the same room always gives the same groups."""
