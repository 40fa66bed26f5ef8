"""rcll: batch reorganiser of agent memory in PostgreSQL + pgvector."""

__version__ = "0.1.0"
