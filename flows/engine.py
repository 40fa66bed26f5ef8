"""How the flows run on Prefect: where tasks are computed, what is tried again, what happens when a run dies."""

import logging
from typing import Any

from prefect import Flow, Task
from prefect.client.schemas.objects import FlowRun, State, TaskRun
from prefect.runtime import flow_run as current
from prefect.task_runners import ThreadPoolTaskRunner
from prefect.tasks import exponential_backoff

from rcll.errors import Busy, InputError, RcllError, Transient, Unreachable
from rcll.settings import load_settings
from rcll.store.control import close_runs_of_flow
from rcll.walk.place import open_places

logger = logging.getLogger("rcll.flows")

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
RETRIES: dict[str, Any] = {
    "retries": 3,
    "retry_delay_seconds": exponential_backoff(3),
    "retry_jitter_factor": 0.5,
    "retry_condition_fn": is_transient,
}


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
