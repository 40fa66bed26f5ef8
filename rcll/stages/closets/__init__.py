"""Closets: tight groups inside a room, their extractive summaries, and the upkeep of both."""

from rcll.stages.closets.cluster import ClosetParams, closet_hall, group_units, source_hash
from rcll.stages.closets.summary import Extract, SummaryParams, extractive_summary, representatives

__all__ = [
    "ClosetParams",
    "Extract",
    "SummaryParams",
    "closet_hall",
    "extractive_summary",
    "group_units",
    "representatives",
    "source_hash",
]
