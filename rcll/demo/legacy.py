"""Puts the demo's banks into a database as they lay there before rcll."""

from rcll.demo.material import read_banks
from rcll.demo.units import demo_units
from rcll.models.embed import OfflineEmbedder
from rcll.store.connect import Database
from rcll.store.seed import load_legacy


def seed_legacy(database: Database, *, schema: str = "public") -> int:
    """Make an old Hindsight-like schema without rooms and load the three banks; returns the number of units.

    Raises:
        DatabaseError: the schema holds banks already; nothing of it is touched.
    """
    units = demo_units()
    embeddings = OfflineEmbedder().embed(units["text"].to_list())
    banks = {bank.id: bank.name for bank in read_banks()}
    load_legacy(database, banks=banks, units=units, embeddings=embeddings, schema=schema)
    return units.height
