"""Clears up what a killed run leaves behind: Prefect's temporary server, and flow runs that seem to be running.

Every run marks itself: its process in an environment variable that the temporary server inherits, its flow run by a
tag. What bears the mark of a process that is gone, and only that, is cleared up by the next run.
"""

from __future__ import annotations

import contextlib
import os
import socket

import psutil

_OWNER_VARIABLE = "BYSTANDER_OWNER"
_TAG_PREFIX = "bystander-owner:"


def mark_this_process() -> str:
    """Put the mark of this process into its environment, for the temporary server to inherit, and return it."""
    mark = _describe(os.getpid())
    os.environ[_OWNER_VARIABLE] = mark
    return mark


def owner_tag(mark: str) -> str:
    """Return the tag that a flow run of a process bears."""
    return f"{_TAG_PREFIX}{socket.gethostname()}:{mark}"


def stop_orphaned_servers() -> int:
    """Stop temporary Prefect servers whose run is gone, and return how many there were."""
    stopped = 0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if not any("prefect.server.api.server:create_app" in word for word in process.cmdline()):
                continue
            mark = process.environ().get(_OWNER_VARIABLE)
            if mark is not None and not _is_alive(mark):
                process.terminate()
                process.wait(timeout=10)
                stopped += 1
    return stopped


def fail_abandoned_flow_runs() -> int:
    """Set flow runs that a killed process of this machine left in state Running to Crashed; return how many."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
    from prefect.client.schemas.objects import StateType
    from prefect.states import Crashed

    prefix = f"{_TAG_PREFIX}{socket.gethostname()}:"
    running = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING])))
    failed = 0
    with get_client(sync_client=True) as client:
        for run in client.read_flow_runs(flow_run_filter=running):
            marks = [tag.removeprefix(prefix) for tag in run.tags if tag.startswith(prefix)]
            if marks and not any(_is_alive(mark) for mark in marks):
                client.set_flow_run_state(run.id, Crashed(message="The process was killed."), force=True)
                failed += 1
    return failed


def _describe(pid: int) -> str:
    """Name a process so that a later one with the same number is not taken for it."""
    return f"{pid}:{psutil.Process(pid).create_time():.2f}"


def _is_alive(mark: str) -> bool:
    pid, _, _ = mark.partition(":")
    with contextlib.suppress(psutil.Error, ValueError):
        return _describe(int(pid)) == mark
    return False
