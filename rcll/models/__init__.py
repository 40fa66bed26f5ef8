"""Summaries and embeddings: the openai client and its offline stand-ins."""

from rcll.models.batch import Pace, summarise_all
from rcll.models.budget import CallBudget, CostEstimate, estimate_cost
from rcll.models.mask import mask_secrets
from rcll.models.summarise import (
    ExtractiveSummariser,
    Summariser,
    Summary,
    SummaryFailure,
    SummaryRequest,
    make_summariser,
)

__all__ = [
    "CallBudget",
    "CostEstimate",
    "ExtractiveSummariser",
    "Pace",
    "Summariser",
    "Summary",
    "SummaryFailure",
    "SummaryRequest",
    "estimate_cost",
    "make_summariser",
    "mask_secrets",
    "summarise_all",
]
