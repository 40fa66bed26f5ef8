"""A fictional company's legacy banks, written for the demo."""

from rcll.demo.legacy import seed_legacy
from rcll.demo.material import read_tunnel_pairs
from rcll.demo.units import ExplicitExample, demo_truth, demo_units, explicit_examples

#: Pairs of banks between which the demo allows tunnels.
DEMO_TUNNEL_PAIRS = read_tunnel_pairs()

__all__ = ["DEMO_TUNNEL_PAIRS", "ExplicitExample", "demo_truth", "demo_units", "explicit_examples", "seed_legacy"]
