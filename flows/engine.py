"""How the flows run on Prefect: where tasks are computed, what is tried again, what happens when a run dies."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from prefect import Flow, Task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import FlowRun, State, TaskRun
from prefect.runtime import flow_run as current
from prefect.states import Completed
from prefect.task_runners import ThreadPoolTaskRunner
from prefect.tasks import exponential_backoff

from rcll.errors import Busy, InputError, RcllError, Transient, Unreachable
from rcll.logs import get_logger, log_to_stderr, logged_as
from rcll.settings import Settings, load_settings
from rcll.store.control import close_runs_of_flow
from rcll.walk.leftovers import run_of_part
from rcll.walk.place import open_places

P = ParamSpec("P")
R = TypeVar("R")
logger = get_logger("rcll.flows")

#: Two threads: the regex engine and BLAS use the cores inside one task already.
THREADS = 2


def choose_runner() -> Any:
    """The task runner that the settings name.

    Raises:
        InputError: Dask is named and not installed.
    """
    settings = load_settings()
    if settings.task_runner == "threads":
        return ThreadPoolTaskRunner(max_workers=THREADS)
    try:
        from prefect_dask.task_runners import DaskTaskRunner  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError("RCLL_TASK_RUNNER is dask, which is not installed; run pip install 'rcll[dask]'") from None
    if settings.dask_address:
        return DaskTaskRunner(address=settings.dask_address)
    local = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    return DaskTaskRunner(cluster_kwargs=local)


def is_transient(_task: Task[..., Any], _run: TaskRun, state: State[Any]) -> bool:
    """Whether the same task may succeed later: the error says so, and no other run took the bank.

    An address that answered when the flow began and does not now is a server that restarts.
    """
    error: Any = state.result(raise_on_failure=False)
    return isinstance(error, Transient | Unreachable) and not isinstance(error, Busy)


#: Four tries within a minute, at random moments; nothing that a rule, a right or a wrong input stopped is tried again.
_RETRIES: dict[str, Any] = {
    "retries": 3,
    "retry_delay_seconds": exponential_backoff(3),
    "retry_jitter_factor": 0.5,
    "retry_condition_fn": is_transient,
}


def step(work: Callable[P, R]) -> Task[P, R]:
    """A stage as a Prefect task: retried where that helps, never cached, its log records bear run, bank and stage."""
    signature = inspect.signature(work)

    @functools.wraps(work)
    def located(*args: P.args, **kwargs: P.kwargs) -> R:
        settings = load_settings()
        log_to_stderr(settings.log_format)  # a Dask worker's process has not begun with the flow
        given = signature.bind(*args, **kwargs).arguments
        with logged_as(run=_run_of(settings, given), bank=given.get("bank"), stage=work.__name__):
            return work(*args, **kwargs)

    return Task(located, cache_policy=NO_CACHE, **_RETRIES)


def _run_of(settings: Settings, given: Mapping[str, Any]) -> str | None:
    """The run that a task works for: its lease's, or that in whose folder the task reads or writes."""
    if lease := given.get("lease"):
        return str(lease.run_id)
    path = given.get("folder") or given.get("units_path")
    return run_of_part(settings, path) if path else None


def finished(summaries: Sequence[Mapping[str, Any]]) -> Any:
    """What a flow returns: its summaries, in a state named Partial where a tenant's run left something undone.

    The state's type stays COMPLETED: nothing is broken, the next run does the rest; but Prefect's pages, filters and
    automations (event ``prefect.flow-run.Partial``) tell it from a run that did everything.
    """
    partial = [each for each in summaries if each["status"] == "partial"]
    if not partial:
        return summaries
    reasons = "; ".join(f"schema {each['schema']}: {each.get('stopped') or 'rows or closets left'}" for each in partial)
    return Completed(name="Partial", message=f"partly done: {reasons}; the next run goes on", data=summaries)


def flow_run_id() -> str | None:
    """Id of the Prefect run that we are in; kept with our own run, so that its end can be told."""
    return current.get_id()


def close_runs(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Hook for runs that failed, crashed or were cancelled: release their banks, close their rows.

    A process that could end itself has done so already. Where the database is gone as well, leases end by themselves
    and the next run closes this one. Prefect calls it by the names of its parameters.
    """
    try:
        with open_places() as places:
            for place in places:
                if place.tenant.migrated:
                    reason = f"flow run {state.type.value.lower()}"
                    for run_id in close_runs_of_flow(place.database, place.tenant, str(flow_run.id), reason):
                        logger.warning("%s: run %s closed: %s", flow.name, run_id, reason, extra={"run": run_id})
    except RcllError as error:
        logger.warning("runs of flow run %s stay open until the next run: %s", flow_run.id, error)


HOOKS: dict[str, Any] = {"on_failure": [close_runs], "on_crashed": [close_runs], "on_cancellation": [close_runs]}
