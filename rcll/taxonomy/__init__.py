"""Rules as data: loading, checking, compiling."""

from rcll.taxonomy.load import load_taxonomy
from rcll.taxonomy.model import Finding, Rule, Taxonomy

__all__ = ["Finding", "Rule", "Taxonomy", "load_taxonomy"]
