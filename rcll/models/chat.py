"""Summaries by a chat model behind any server that speaks the OpenAI protocol."""

import weakref
from typing import Any

import openai
from openai.types.chat import ChatCompletion

from rcll.models.answer import AnswerFault, read_answer
from rcll.models.budget import ANSWER_TOKENS, BudgetSpent, CallBudget, prompt_tokens
from rcll.models.client import TRANSIENT, Endpoint, explain_fault
from rcll.models.prompt import Prompt, build_prompt
from rcll.models.summarise import Summary, SummaryFailure, SummaryRequest

#: Faults that another answer to the same question may not have; asked once more.
_FLAKY = frozenset({"empty", "bad-json", "truncated", "bad-response", "invented-sources"})
_ASKS = 2


class OpenAISummariser:
    """Asks a chat model for each group; safe to call from several threads.

    A retry of a failed request is the client's own; an unusable answer is asked for once more. What fails
    then is a ``SummaryFailure`` of that group alone.
    """

    def __init__(self, endpoint: Endpoint, budget: CallBudget) -> None:
        self._endpoint, self.budget = endpoint, budget
        self._client = endpoint.open(budget)
        weakref.finalize(self, self._client.close)
        self._json_mode: dict[str, Any] = {"response_format": {"type": "json_object"}}

    def summarise(self, request: SummaryRequest) -> Summary | SummaryFailure:
        """Summarise one group.

        Raises:
            ModelError: the key, the model's name or the account is wrong; no further group can succeed.
        """
        prompt = build_prompt(request.room, request.hall, request.texts)
        reserved = prompt_tokens(prompt.messages) + ANSWER_TOKENS
        try:
            self.budget.reserve(reserved)
        except BudgetSpent as error:
            return SummaryFailure("budget", f"not tried: {error}")
        tokens = 0
        outcome: Summary | SummaryFailure | None = None
        try:
            for _ in range(_ASKS):
                outcome, spent = self._ask(prompt, request)
                tokens += spent
                if isinstance(outcome, Summary) or outcome.kind not in _FLAKY:
                    break
        finally:
            self.budget.settle(reserved, tokens)
        assert outcome is not None
        return outcome

    def give_up(self, reason: str) -> None:
        """Close the budget: no request leaves any more."""
        self.budget.close(reason)

    def _ask(self, prompt: Prompt, request: SummaryRequest) -> tuple[Summary | SummaryFailure, int]:
        """One answer, and the tokens that it took."""
        try:
            reply = self._complete(prompt)
            tokens = _tokens(reply, prompt)
        except BudgetSpent as error:
            return SummaryFailure("budget", f"given up: {error}"), 0
        except openai.OpenAIError as error:
            kind, reason = explain_fault(error, self._endpoint)
            return SummaryFailure(kind, reason, kind in TRANSIENT), 0
        except ValueError:  # the client hands on what its JSON parser says of a broken body
            self.budget.count_fault("bad-response")
            return SummaryFailure("bad-response", "a response body that is no JSON"), 0
        try:
            answer = read_answer(_content(reply), prompt.notes)
        except AnswerFault as fault:
            self.budget.count_fault(fault.kind)
            return SummaryFailure(fault.kind, fault.reason), tokens
        model, n_read = self._endpoint.model, len(prompt.notes)
        return Summary(
            answer.title, answer.text, answer.used, model, False, n_read, request.n_total, answer.flags, tokens
        ), tokens

    def _complete(self, prompt: Prompt) -> Any:
        messages: Any = list(prompt.messages)
        ask = self._client.chat.completions.create
        try:
            return ask(model=self._endpoint.model, messages=messages, **self._json_mode)
        except openai.BadRequestError:
            if not self._json_mode:
                raise
        # Some servers know no JSON mode and say so with a 400; the prompt asks for JSON anyway.
        reply = ask(model=self._endpoint.model, messages=messages)
        self._json_mode = {}
        return reply


def _content(reply: Any) -> str:
    """The text of a completion.

    Raises:
        AnswerFault: it is none, it was cut off, or the model refused.
    """
    if not isinstance(reply, ChatCompletion) or not reply.choices:
        raise AnswerFault("bad-response", "a response that is no chat completion")
    choice = reply.choices[0]
    if choice.message.refusal or choice.finish_reason == "content_filter":
        raise AnswerFault("refusal", "the model refused")
    if choice.finish_reason == "length":
        raise AnswerFault("truncated", "the answer was cut off at the model's limit")
    return choice.message.content or ""


def _tokens(reply: Any, prompt: Prompt) -> int:
    """Tokens as the server counted them, else an estimate."""
    usage = getattr(reply, "usage", None)
    return usage.total_tokens if usage else prompt_tokens(prompt.messages) + ANSWER_TOKENS
