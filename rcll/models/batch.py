"""Summarises many groups: in parallel, patient with a server that refuses for a while, bounded."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rcll.logs import get_logger
from rcll.models.summarise import Summariser, Summary, SummaryFailure, SummaryRequest
from rcll.progress import report

logger = get_logger("rcll.models")

_REFUSED = "the model's server kept refusing; run again later"


@dataclass(frozen=True, slots=True)
class Pace:
    """How hard a server is pressed."""

    concurrency: int = 4
    """Within the limits of small accounts and of a model on the same machine."""
    give_up_after: int = 3
    """Groups in a row that failed although the client retried: the server is out, not the group odd."""
    pauses_s: tuple[float, ...] = (15.0, 30.0, 60.0)
    """Waits before the server is tried again. After two minutes in all the rest is left to the next run,
    which takes up what is missing: better a partial run that says so than a progress bar that stands still."""


def summarise_all(
    summariser: Summariser,
    requests: Sequence[SummaryRequest],
    pace: Pace | None = None,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Summary | SummaryFailure]:
    """Summarise groups; result i belongs to request i, and none is lost.

    Each round asks for one group alone first: a wrong key or a server that is down costs one call.

    Raises:
        ModelError: no group can be summarised in this run; nothing further was asked.
    """
    pace = pace or Pace()
    results: dict[int, Summary | SummaryFailure] = {}
    waiting = list(range(len(requests)))
    pauses = iter(pace.pauses_s)
    while waiting:
        round_ = _Round(summariser, requests, pace)
        results |= round_.run(waiting)
        if not round_.is_outage:
            break
        again = [i for i, result in round_.tried.items() if _is_transient(result)]
        # tried last time, asked last this time: one odd group shall not stand for the server
        waiting = [i for i in waiting if i not in round_.tried] + again
        pause = None if round_.is_hanging else next(pauses, None)
        if pause is None:
            summariser.give_up(_REFUSED)
            break
        logger.warning("the model's server refuses; %d groups wait %g s", len(waiting), pause)
        sleep(pause)
    return [results.get(i) or SummaryFailure("not-tried", f"not tried: {_REFUSED}") for i in range(len(requests))]


class _Round:
    """One pass over the waiting groups, ended early when the server is out.

    Attributes:
        is_outage: the first group or several in a row failed, so the rest was not asked for.
        is_hanging: the last of them waited in vain for an answer; waiting longer is no use.
    """

    def __init__(self, summariser: Summariser, requests: Sequence[SummaryRequest], pace: Pace) -> None:
        self._summariser, self._requests, self._pace = summariser, requests, pace
        self._lock = threading.Lock()
        self._in_a_row = 0
        self._is_over = False
        self.tried: dict[int, Summary | SummaryFailure] = {}
        self.is_outage = self.is_hanging = False

    def run(self, waiting: Sequence[int]) -> dict[int, Summary | SummaryFailure]:
        """Results of those that were tried."""
        self._try(waiting[0])
        first = self.tried[waiting[0]]
        # one group may hang by itself, but is not refused by itself
        self._is_over = self.is_outage = _is_transient(first) and not _is_timeout(first)
        with ThreadPoolExecutor(self._pace.concurrency) as pool:
            try:
                for n_done, _ in enumerate(pool.map(self._try, waiting[1:]), start=2):
                    report("summaries", n_done, len(waiting))
            finally:
                self._is_over = True  # after Ctrl-C, too, the threads end with their present call
        return self.tried

    def _try(self, i: int) -> None:
        if self._is_over:
            return
        try:
            result = self._summariser.summarise(self._requests[i])
        except BaseException:
            self._is_over = True
            raise
        with self._lock:
            self.tried[i] = result
            self._in_a_row = self._in_a_row + 1 if _is_transient(result) else 0
            if self._in_a_row >= self._pace.give_up_after:
                self._is_over = self.is_outage = True
                self.is_hanging = _is_timeout(result)


def _is_transient(result: Summary | SummaryFailure) -> bool:
    return isinstance(result, SummaryFailure) and result.is_transient


def _is_timeout(result: Summary | SummaryFailure) -> bool:
    return isinstance(result, SummaryFailure) and result.kind == "timeout"
