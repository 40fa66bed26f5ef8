"""Closets: tight groups inside a room, their extractive summaries, and the upkeep of both."""

from rcll.stages.closets.cluster import closet_hall, group_units, rank_units, source_hash
from rcll.stages.closets.params import ClosetParams
from rcll.stages.closets.summary import Extract, SummaryParams, extractive_summary, representatives
from rcll.stages.closets.upkeep import CLOSET_MEMBERS, CLOSET_SOURCES, ClosetPlan, plan_closets

__all__ = [
    "CLOSET_MEMBERS",
    "CLOSET_SOURCES",
    "ClosetParams",
    "ClosetPlan",
    "Extract",
    "SummaryParams",
    "closet_hall",
    "extractive_summary",
    "group_units",
    "plan_closets",
    "rank_units",
    "representatives",
    "source_hash",
]
