"""What a run may spend on a model, what it has spent, and what a plan would cost."""

import math
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rcll.errors import ModelError
from rcll.models.prompt import build_prompt

if TYPE_CHECKING:
    from rcll.models.summarise import SummaryRequest

#: Tokens that one answer is reckoned to take: a title and a paragraph of about 700 characters, as JSON.
ANSWER_TOKENS = 250


class BudgetSpent(ModelError):  # noqa: N818 - the state it reports
    """No further call may be made in this run."""


class CallBudget:
    """Calls and tokens of one run; shared by its threads, counted where the requests leave.

    Attributes:
        calls: requests sent, the client's own retries among them.
        groups: groups for which at least one request was wanted.
        tokens: tokens in and out, as the server reports them, else estimated.
        closed: why no further call may be made, empty while calls may.
        faults: how often each fault was met, those among them that a retry cured.
    """

    def __init__(self, max_calls: int, max_tokens: int) -> None:
        self.max_calls, self.max_tokens = max_calls, max_tokens
        self.calls = self.groups = self.tokens = self._reserved = 0
        self.faults: Counter[str] = Counter()
        self.closed = ""
        self._lock = threading.Lock()

    @property
    def retries(self) -> int:
        """Requests beyond the first of each group."""
        return max(0, self.calls - self.groups)

    def reserve(self, tokens: int) -> None:
        """Set the estimated tokens of one group aside, before its first request.

        Raises:
            BudgetSpent: they do not fit, or no call is left.
        """
        with self._lock:
            self._refuse_if_spent()
            if self.tokens + self._reserved + tokens > self.max_tokens:
                raise BudgetSpent(f"{self.tokens} tokens spent of {self.max_tokens}; allow more with --max-tokens")
            self._reserved += tokens
            self.groups += 1

    def settle(self, reserved: int, used: int) -> None:
        """Replace what was set aside by what was used."""
        with self._lock:
            self._reserved -= reserved
            self.tokens += used

    def take_call(self) -> None:
        """Count one request that is about to leave.

        Raises:
            BudgetSpent: none is left.
        """
        with self._lock:
            self._refuse_if_spent()
            self.calls += 1

    def count_fault(self, kind: str) -> None:
        """Note one fault, whether or not a retry cures it."""
        with self._lock:
            self.faults[kind] += 1

    def close(self, reason: str) -> None:
        """End the run's calls: whoever asks later is refused with this reason."""
        with self._lock:
            self.closed = reason

    def _refuse_if_spent(self) -> None:
        if self.closed:
            raise BudgetSpent(self.closed)
        if self.calls >= self.max_calls:
            raise BudgetSpent(f"{self.calls} calls made of {self.max_calls}; allow more with --max-calls")


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """What summaries would cost: ``cost`` in the price table's currency, None where it lacks the model.

    ``n_left_out`` groups are beyond the budget.
    """

    calls: int
    tokens_in: int
    tokens_out: int
    cost: float | None
    n_left_out: int = 0


def estimate_tokens(text: str) -> int:
    """Tokens of a text, roughly: four ASCII characters or one and a half others make one."""
    n_ascii = len(text.encode("ascii", "ignore"))
    return math.ceil(n_ascii / 4 + (len(text) - n_ascii) / 1.5)


def prompt_tokens(messages: Iterable[Mapping[str, str]]) -> int:
    """Tokens of a prompt, roughly; each message costs a few for its frame."""
    return sum(estimate_tokens(message["content"]) + 4 for message in messages)


def estimate_cost(
    requests: Sequence["SummaryRequest"], model: str, prices: Mapping[str, Sequence[float]], budget: CallBudget
) -> CostEstimate:
    """Preview of a run without faults, as far as its budget goes.

    Args:
        requests: the groups that would be summarised.
        model: the chat model's name.
        prices: price of a million tokens in and out, by model.
        budget: of the run; it is spent as the run would.
    """
    tokens_in = n_calls = 0
    for request in requests:
        prompt = prompt_tokens(build_prompt(request.room, request.hall, request.texts).messages)
        reserved = prompt + ANSWER_TOKENS
        with suppress(BudgetSpent):
            budget.reserve(reserved)
            budget.take_call()
            budget.settle(reserved, reserved)
            tokens_in += prompt
            n_calls += 1
    tokens_out = ANSWER_TOKENS * n_calls
    cost = None
    if model in prices:
        price_in, price_out = prices[model]
        cost = (tokens_in * price_in + tokens_out * price_out) / 1e6
    return CostEstimate(n_calls, tokens_in, tokens_out, cost, len(requests) - n_calls)
