"""What all flows have around their work: a server and threads to run on, and starting over where a part is damaged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from prefect import Flow, tags
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from bystander.flows.listeners import BuildListener
from bystander.flows.prefect_housekeeping import (
    fail_abandoned_flow_runs,
    mark_this_process,
    owner_tag,
    start_temporary_server,
    stop_orphaned_servers,
)
from bystander.flows.run_log import quiet_user_errors
from bystander.schemas.errors import CorruptPartError
from bystander.storage.filesystem import Store
from bystander.storage.stage_results import discard_result_of_part

Config = TypeVar("Config")
Outcome = TypeVar("Outcome")

_MAX_REPAIRS = 5
"""Times that a flow starts over from its stored results because one of them turned out damaged."""


def run_flow(flow: Flow[[Config], Outcome], config: Config, workers: int, tag: str) -> Outcome:
    """Run a flow in this process, on so many threads, and clear up what killed runs left behind."""
    quiet_user_errors()
    mark = mark_this_process()
    stop_orphaned_servers()
    start_temporary_server()
    fail_abandoned_flow_runs()
    runner: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=workers)
    with tags(owner_tag(mark), tag):
        return flow.with_options(task_runner=runner)(config)


def run_with_repairs(run: Callable[[], Outcome], store: Store, listener: BuildListener, phase: str) -> Outcome:
    """Return what `run` returns, which starts over, told as `phase`, without each part that it finds damaged.

    Raises:
        CorruptPartError: there is no end of damaged parts.
    """
    for repair in range(_MAX_REPAIRS + 1):
        try:
            return run()
        except CorruptPartError as damage:
            if repair == _MAX_REPAIRS:
                raise
            listener.on_phase(f"{phase}: {damage}")
            discard_result_of_part(store, damage.path)
    raise AssertionError("unreachable")
