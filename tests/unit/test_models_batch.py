"""Many groups against a faulty server: nothing lost, everything counted, patience bounded.

The double tests transport, parsing, retries and budgets, not the quality of answers.
"""

import random
import threading

import pytest
from pydantic import SecretStr

from rcll.errors import ModelError
from rcll.models import CallBudget, Pace, Summary, SummaryFailure, SummaryRequest, estimate_cost, summarise_all
from rcll.models.chat import OpenAISummariser
from rcll.models.client import Endpoint
from tests.doubles import openai_double as double_


def _requests_of(n):
    return [
        SummaryRequest("atlas", "deployment", "fact", (f"Deploy {i} ran on Friday.", f"Deploy {i} ran late."), 2)
        for i in range(n)
    ]


def _make(double, *, max_calls=5_000, timeout_s=5.0, max_retries=1, model=double_.MODEL):
    endpoint = Endpoint(model, double.base_url, SecretStr(double_.KEY), "RCLL_SUMMARY", timeout_s, max_retries)
    return OpenAISummariser(endpoint, CallBudget(max_calls, 10_000_000))


class Clock:
    """Time that passes only in ``sleep``."""

    def __init__(self):
        self.now = 0.0

    def sleep(self, seconds):
        """Let time pass."""
        self.now += seconds


def _kinds(results):
    return [result.kind if isinstance(result, SummaryFailure) else "ok" for result in results]


def test_concurrency_is_limited(openai_double):
    """Never more requests at once than the pace allows, and more than one."""
    lock, running, most = threading.Lock(), [0], [0]
    barrier = threading.Event()

    def rule(_):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        barrier.wait(0.02)
        with lock:
            running[0] -= 1

    openai_double.rule = rule
    summarise_all(_make(openai_double), _requests_of(20), Pace(concurrency=3))
    assert 2 <= most[0] <= 3


def test_ten_minutes_of_429(openai_double):
    """The run gives up after less than two minutes of refusals with a handful of calls; the next run goes well."""
    clock = Clock()
    openai_double.rule = lambda _: double_.RATE_LIMITED if clock.now < 600 else None
    summariser = _make(openai_double)
    results = summarise_all(summariser, _requests_of(100), sleep=clock.sleep)
    assert clock.now == 105
    assert summariser.budget.calls == openai_double.n_requests == 8
    assert set(_kinds(results)) == {"rate-limited", "not-tried"}
    again = summarise_all(summariser, _requests_of(100), sleep=clock.sleep)
    assert set(_kinds(again)) == {"budget"}, "a run that gave up stays so, room after room"
    assert openai_double.n_requests == 8
    clock.now = 600
    assert set(_kinds(summarise_all(_make(openai_double), _requests_of(100), sleep=clock.sleep))) == {"ok"}


@pytest.mark.parametrize("fault", [double_.RATE_LIMITED, double_.UNAVAILABLE])
def test_outage_that_passes_costs_nothing(openai_double, fault):
    """A server that comes back within the pauses gives every summary, and none is asked for twice."""
    clock = Clock()
    openai_double.rule = lambda _: fault if 0 < clock.now < 40 or openai_double.n_requests == 1 else None
    summariser = _make(openai_double, max_retries=0)
    results = summarise_all(summariser, _requests_of(30), sleep=clock.sleep)
    assert set(_kinds(results)) == {"ok"}
    assert clock.now == 45
    assert openai_double.n_requests == 32


def test_outage_in_the_middle(openai_double):
    """When the server goes down half-way, what was made stays, and the rest follows when it is back."""
    clock = Clock()
    openai_double.rule = lambda _: double_.UNAVAILABLE if openai_double.n_requests > 20 and clock.now < 15 else None
    summariser = _make(openai_double, max_retries=0)
    results = summarise_all(summariser, _requests_of(50), sleep=clock.sleep)
    assert set(_kinds(results)) == {"ok"}
    assert openai_double.n_requests <= 50 + 12, "three in a row, and what was under way"


def test_hanging_server_is_not_waited_for(openai_double):
    """Three groups without an answer end the run's calls: no pauses after the time-outs."""
    clock = Clock()
    openai_double.rule = lambda _: double_.HANG
    summariser = _make(openai_double, timeout_s=0.1, max_retries=0)
    results = summarise_all(summariser, _requests_of(30), sleep=clock.sleep)
    assert clock.now == 0
    assert set(_kinds(results)) == {"timeout", "not-tried"}
    assert openai_double.n_requests <= 1 + 4 + 4


def test_one_group_that_hangs(openai_double):
    """A single group that hangs fails alone."""
    openai_double.faults.append(double_.HANG)
    results = summarise_all(_make(openai_double, timeout_s=0.2, max_retries=0), _requests_of(10))
    assert _kinds(results) == ["timeout"] + ["ok"] * 9


def test_wrong_model_costs_one_call(openai_double):
    """A fault that no group escapes is found by the first, alone; the run ends with one error."""
    summariser = _make(openai_double, model=double_.UNKNOWN_MODEL)
    with pytest.raises(ModelError, match="RCLL_SUMMARY_MODEL"):
        summarise_all(summariser, _requests_of(100))
    assert openai_double.n_requests == 1


def test_key_revoked_in_the_middle(openai_double):
    """A key that stops working ends the run at once; at most what was under way is asked as well."""
    openai_double.rule = lambda _: double_.UNAUTHORISED if openai_double.n_requests > 10 else None
    with pytest.raises(ModelError, match="401"):
        summarise_all(_make(openai_double), _requests_of(500))
    assert openai_double.n_requests <= 10 + 8


def test_budget_ends_in_the_middle(openai_double):
    """With ten calls ten groups are summarised, the others say why not, and no more requests leave."""
    results = summarise_all(_make(openai_double, max_calls=10), _requests_of(40))
    assert _kinds(results).count("ok") == openai_double.n_requests == 10
    assert _kinds(results).count("budget") == 30


def test_no_groups(openai_double):
    """Nothing to do is nothing done: a second run makes no call."""
    assert summarise_all(_make(openai_double), []) == []
    assert openai_double.n_requests == 0


def test_results_keep_the_order(openai_double):
    """Result i belongs to request i although answers come in any order."""
    chance = random.Random(3)
    openai_double.rule = lambda _: double_.Fault(wait_s=chance.random() / 50)
    requests = _requests_of(30)
    for request, result in zip(requests, summarise_all(_make(openai_double), requests), strict=True):
        assert isinstance(result, Summary)
        assert result.text.startswith(request.texts[0])


def test_estimate(openai_double):
    """The preview counts a call a group; a model without a price has no cost, one with a price has."""
    requests = _requests_of(10)
    unknown = estimate_cost(requests, "m", {}, CallBudget(50, 100_000))
    assert (unknown.calls, unknown.tokens_out, unknown.cost) == (10, 2_500, None)
    known = estimate_cost(requests, "m", {"m": (1.0, 4.0)}, CallBudget(50, 100_000))
    assert known.cost == pytest.approx((known.tokens_in * 1 + 2_500 * 4) / 1e6)
    assert openai_double.n_requests == 0


def test_estimate_ends_where_the_budget_does(openai_double):
    """What calls or tokens do not reach for is left out of the preview, as a run would leave it out."""
    requests = _requests_of(10)
    by_calls = estimate_cost(requests, "m", {}, CallBudget(4, 100_000))
    assert (by_calls.calls, by_calls.n_left_out) == (4, 6)
    each = (by_calls.tokens_in + by_calls.tokens_out) // 4
    by_tokens = estimate_cost(requests, "m", {}, CallBudget(50, 3 * each + each // 2))
    assert (by_tokens.calls, by_tokens.n_left_out, by_tokens.tokens_out) == (3, 7, 750)
    assert openai_double.n_requests == 0


def test_estimate_is_near_what_is_sent(openai_double):
    """The prompt's estimated tokens are about a quarter of the characters that really leave."""
    summarise_all(_make(openai_double), _requests_of(1))
    estimate = estimate_cost(_requests_of(1), "m", {}, CallBudget(50, 100_000)).tokens_in
    assert estimate == pytest.approx(len(openai_double.requests[0].text) / 4, rel=0.1)
