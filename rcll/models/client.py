"""The openai client as rcll uses it: counted, within a budget, its errors in rcll's words."""

import os
from dataclasses import dataclass
from typing import Any

import httpx2
import openai
from pydantic import SecretStr

from rcll.errors import InputError, ModelError
from rcll.models.budget import CallBudget
from rcll.models.mask import masked_head

#: Kinds of faults that pass by themselves.
TRANSIENT = frozenset({"rate-limited", "unavailable", "timeout", "unreachable"})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is found; ``setting`` is the prefix of the settings that say so.

    Attributes:
        timeout_s: an answer of 250 tokens takes seconds; after a minute nobody is writing it any more.
        max_retries: the client's own, with its back-off or as long as the server's Retry-After says.
    """

    model: str
    base_url: str | None
    api_key: SecretStr | None
    setting: str
    timeout_s: float = 60.0
    max_retries: int = 2

    def open(self, budget: CallBudget | None = None) -> openai.OpenAI:
        """Make a client; what is not set here comes from the client's own OPENAI_* variables.

        That is safe only because a model was named in rcll's settings: without one nobody calls this.

        Raises:
            InputError: no key anywhere, and no server named that may do without.
        """
        key = self.api_key.get_secret_value() if self.api_key else os.environ.get("OPENAI_API_KEY")
        if not key and self.base_url is None:
            raise InputError(
                f"no key for model '{self.model}'; expected one in {self.setting}_API_KEY or OPENAI_API_KEY"
            )
        return openai.OpenAI(
            api_key=key or "none",  # a server on one's own machine asks for none
            base_url=self.base_url,
            http_client=_CountedClient(budget) if budget else None,
            timeout=self.timeout_s,
            max_retries=self.max_retries,
        )


def explain_fault(error: openai.OpenAIError, endpoint: Endpoint) -> tuple[str, str]:
    """Name a failed call: (kind, reason).

    Raises:
        ModelError: no call can succeed in this run: the key, the model's name or the account is wrong.
    """
    if isinstance(error, openai.APITimeoutError):
        return "timeout", "no answer in time"
    if isinstance(error, openai.APIStatusError):
        return _explain_status(error, endpoint)
    if isinstance(error, openai.APIConnectionError):
        return (
            "unreachable",
            f"no connection to the server of model '{endpoint.model}'; check {endpoint.setting}_BASE_URL",
        )
    return "bad-response", f"a response that cannot be read ({type(error).__name__})"


def _explain_status(error: openai.APIStatusError, endpoint: Endpoint) -> tuple[str, str]:
    status, model, setting = error.status_code, endpoint.model, endpoint.setting
    if status in {401, 403}:
        raise ModelError(
            f"the server refuses the key for model '{model}' ({status}); correct {setting}_API_KEY"
        ) from None
    if status == 404 or error.code == "model_not_found":  # noqa: PLR2004 - HTTP
        raise ModelError(
            f"the server knows no model '{model}' ({status}); correct {setting}_MODEL or {setting}_BASE_URL"
        ) from None
    if error.code == "insufficient_quota":
        raise ModelError(
            f"the account for model '{model}' has no quota left ({status}); top it up and run again"
        ) from None
    said = masked_head(" ".join(error.message.split()), 160)
    if status == 429:  # noqa: PLR2004
        return "rate-limited", f"too many requests ({status}): {said}"
    if status >= 500 or status in {408, 409}:  # noqa: PLR2004
        return "unavailable", f"the server is unavailable ({status}): {said}"
    return "bad-request", f"the server refuses the request ({status}): {said}"


class _CountedClient(openai.DefaultHttpxClient):
    """Asks the budget before every request, those of the client's own retries among them."""

    def __init__(self, budget: CallBudget) -> None:
        super().__init__()
        self._budget = budget

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send, and count what went wrong."""
        self._budget.take_call()
        try:
            response = super().send(request, **options)
        except httpx2.TimeoutException:
            self._budget.count_fault("timeout")
            raise
        except httpx2.RequestError:
            self._budget.count_fault("unreachable")
            raise
        if response.is_error:
            self._budget.count_fault(f"http-{response.status_code}")
        return response
