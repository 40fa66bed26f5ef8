"""Summaries of groups: the contract, the one without a model, and who makes them."""

from dataclasses import dataclass
from typing import Protocol

from rcll.errors import RcllError
from rcll.models.answer import one_line
from rcll.models.budget import CallBudget
from rcll.models.prompt import prompt_note
from rcll.settings import Settings
from rcll.stages.closets import SummaryParams, extractive_summary

__all__ = [
    "CallBudget",
    "ExtractiveSummariser",
    "Summariser",
    "Summary",
    "SummaryFailure",
    "SummaryRequest",
    "make_summariser",
]

#: Model name of a summary that no model wrote.
EXTRACTIVE = "extractive"


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """A group to be summarised.

    Attributes:
        texts: the members to be read, in time order, within ``prompt.PROMPT_CHARS`` in all (choose
            ``representatives`` of a larger group); text i has number i + 1.
        n_total: members of the group, those that are not read among them.
    """

    bank: str
    room: str
    hall: str
    texts: tuple[str, ...]
    n_total: int


@dataclass(frozen=True, slots=True)
class Summary:
    """What a group says.

    Attributes:
        used: numbers of the texts that the summary rests on, ascending, from 1.
        n_read: texts that were read; ``n_read`` of ``n_total`` members.
        flags: what a reader should know, e.g. a number that no source holds.
        tokens: tokens in and out; 0 without a model.
    """

    title: str
    text: str
    used: tuple[int, ...]
    model: str
    is_extractive: bool
    n_read: int
    n_total: int
    flags: tuple[str, ...] = ()
    tokens: int = 0

    @property
    def n_left_out(self) -> int:
        """Texts that were read and that the summary does not rest on."""
        return self.n_read - len(self.used)


@dataclass(frozen=True, slots=True)
class SummaryFailure:
    """Why a group has no summary; ``kind`` is one word for counting, ``reason`` a line for the user."""

    kind: str
    reason: str
    is_transient: bool = False


class Summariser(Protocol):
    """Writes summaries; may be called from several threads."""

    def summarise(self, request: SummaryRequest) -> Summary | SummaryFailure:
        """Summarise one group.

        Raises:
            ModelError: no group can be summarised in this run, e.g. because the key is wrong.
        """
        ...

    def give_up(self, reason: str) -> None:
        """Let every later group of this run fail with this reason, without a call."""
        ...


class ExtractiveSummariser:
    """Quotes central sentences; no model, no network."""

    def __init__(self, params: SummaryParams | None = None) -> None:
        self._params = params or SummaryParams()

    def summarise(self, request: SummaryRequest) -> Summary | SummaryFailure:
        """Summarise one group by its own sentences, secrets masked."""
        try:
            extract = extractive_summary([prompt_note(text) for text in request.texts], self._params)
        except RcllError as error:
            return SummaryFailure("blank", str(error))
        used = tuple(i + 1 for i in extract.used)
        title, text, n_read = one_line(extract.title), one_line(extract.summary), len(request.texts)
        return Summary(title, text, used, EXTRACTIVE, True, n_read, request.n_total)

    def give_up(self, reason: str) -> None:
        """Nothing is called, so nothing ends."""


def make_summariser(settings: Settings, budget: CallBudget | None = None) -> Summariser:
    """The summariser that the settings name: a model only where ``summary_model`` does.

    Args:
        settings: a stray OPENAI_API_KEY without ``summary_model`` does nothing.
        budget: shared by all that one run summarises; by default one of its own.

    Raises:
        InputError: a model is named and no key is found.
    """
    if settings.summary_model is None:
        return ExtractiveSummariser()
    from rcll.models.chat import OpenAISummariser  # noqa: PLC0415 - the client takes half a second to load
    from rcll.models.client import Endpoint  # noqa: PLC0415

    endpoint = Endpoint(settings.summary_model, settings.summary_base_url, settings.summary_api_key, "RCLL_SUMMARY")
    return OpenAISummariser(endpoint, budget or CallBudget(settings.max_calls, settings.max_tokens))
