"""Before a run writes anything: can every Dask worker do its part?"""

from typing import Any
from uuid import uuid4

from prefect.context import FlowRunContext
from prefect.task_runners import ThreadPoolTaskRunner

from rcll.errors import InputError, Unreachable
from rcll.settings import load_settings
from rcll.walk.worker import first_difference, surroundings, write_mark


def check_workers() -> None:
    """Let every worker look at storage, database, rules and version; they must be those of the flow.

    Raises:
        Unreachable: nobody answers at RCLL_DASK_ADDRESS.
        InputError: there are no workers, or one of them sees something else.
    """
    context = FlowRunContext.get()
    if context is None or isinstance(context.task_runner, ThreadPoolTaskRunner):
        return
    settings = load_settings()
    mark = write_mark(settings, f"reached-{uuid4().hex}")
    try:
        seen = _ask(context.task_runner, mark.name)
        ours = surroundings(mark.name)
    finally:
        mark.unlink()
    if not seen:
        raise InputError("the Dask scheduler has no workers; expected one at least; start dask worker there")
    for address, theirs in seen.items():
        if difference := first_difference(ours, theirs):
            raise InputError(
                f"Dask worker {address} cannot take part: {difference}; expected the same on every machine; "
                "nothing was written"
            )


def _ask(runner: Any, mark: str) -> dict[str, dict[str, str]]:
    try:
        return runner.client.run(surroundings, mark)
    except (OSError, TimeoutError) as error:
        raise Unreachable(
            f"no Dask scheduler answers at {load_settings().dask_address}: {type(error).__name__}; expected one and "
            "its workers; start dask scheduler, or correct RCLL_DASK_ADDRESS"
        ) from None
    except ImportError as error:
        raise InputError(f"a Dask worker lacks a part of rcll: {error}; install the same version on all") from None
