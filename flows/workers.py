"""Before a run writes anything: can this process, and every Dask worker, do its part?"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from prefect.context import FlowRunContext
from prefect.task_runners import ThreadPoolTaskRunner

from rcll.errors import InputError, Unreachable
from rcll.logs import log_to_stderr
from rcll.progress import notice
from rcll.settings import load_settings
from rcll.store.control import server_clock
from rcll.walk.place import Place, refuse_hopeless
from rcll.walk.worker import clock_difference, first_difference, surroundings, write_mark


def begin(chosen: Sequence[tuple[Place, list[str] | None]], *, dry_run: bool) -> None:
    """What a flow does first: let its log lines out, and look at rights, clocks, storage and workers.

    Raises:
        DatabaseError: the role may not write what the run writes.
        Busy: another run holds one of the banks.
        InputError, Unreachable: see :func:`check_workers`.
    """
    log_to_stderr(load_settings().log_format)
    if not dry_run:
        refuse_hopeless(chosen)
    for place, _ in chosen[:1]:  # one database holds them all
        with place.database.connect() as conn:
            if line := clock_difference(datetime.now(UTC), server_clock(conn)):
                notice(line)
    check_workers()


def check_workers() -> None:
    """Look at storage from here and from every Dask worker, which must see the rest as the flow does, too.

    Raises:
        Unreachable: nobody answers at RCLL_DASK_ADDRESS.
        InputError: storage cannot be written, there are no workers, or one of them sees something else.
    """
    settings = load_settings()
    mark = write_mark(settings, f"reached-{uuid4().hex}")
    try:
        context = FlowRunContext.get()
        if context is None or isinstance(context.task_runner, ThreadPoolTaskRunner):
            return
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
