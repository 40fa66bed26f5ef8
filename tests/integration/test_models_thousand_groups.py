"""A thousand groups against a faulty server: nothing lost, everything counted.

The double tests transport, parsing, retries and budgets, not the quality of answers.
"""

import random
import threading

from pydantic import SecretStr

from rcll.models import CallBudget, Summary, SummaryFailure, SummaryRequest, summarise_all
from rcll.models.chat import OpenAISummariser
from rcll.models.client import Endpoint
from tests.doubles import openai_double as double_

#: What may go wrong with a request, beside how the budget counts it.
MENU = {
    "EMPTY": "empty",
    "BAD_JSON": "bad-json",
    "CUT": "bad-json",
    "INVENTED": "invented-sources",
    "BROKEN_BODY": "bad-response",
    "REFUSAL": "refusal",
    "TOO_LONG": "too-long",
    "RATE_LIMITED": "http-429",
    "UNAVAILABLE": "http-503",
}


def test_thousand_groups_with_faults(openai_double):
    """1,000 groups, one request in ten faulty: every fault counted, no group lost, calls = groups + retries."""
    chance, lock, injected = random.Random(7), threading.Lock(), []

    def rule(_):
        with lock:
            if chance.random() >= 0.1:
                return None
            injected.append(chance.choice(list(MENU)))
            return getattr(double_, injected[-1])

    openai_double.rule = rule
    budget = CallBudget(max_calls=2_000, max_tokens=1_000_000)
    endpoint = Endpoint(double_.MODEL, openai_double.base_url, SecretStr(double_.KEY), "RCLL_SUMMARY")
    requests = [
        SummaryRequest("atlas", "deployment", "fact", (f"Deploy {i} ran on Friday.", f"Deploy {i} ran late."), 2)
        for i in range(1_000)
    ]
    results = summarise_all(OpenAISummariser(endpoint, budget), requests)
    assert len(results) == budget.groups == 1_000
    for request, result in zip(requests, results, strict=True):
        assert isinstance(result, SummaryFailure) or result.text.startswith(request.texts[0])
    assert sorted(budget.faults.elements()) == sorted(MENU[name] for name in injected)
    assert budget.calls == budget.groups + budget.retries == openai_double.n_requests
    n_made = sum(isinstance(result, Summary) for result in results)
    n_hopeless = injected.count("REFUSAL") + injected.count("TOO_LONG")
    assert 1_000 - n_made - n_hopeless < 30, "only a fault that struck twice costs a group"
