"""Which failed runs of deployments Prefect starts over: those that may succeed if nothing is changed.

Prefect's server makes a retry of every failed state while a run's policy has retries left. So the policy of the run is
set from its parameters when it starts, and emptied before a failure is returned that would only happen again.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from prefect import runtime
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun, FlowRunPolicy

_IN_PROCESS = "in_process"
"""What Prefect notes of a run that it has set to be retried in the same process."""


def allow_retries(retries: int, wait_s: int) -> None:
    """Let this run be started over so often when it fails; a run that a person retries has all of them again."""
    run = _read_this_run()
    if run.empirical_policy.retry_type == _IN_PROCESS:
        return
    _update(run, retries=run.run_count - 1 + retries, retry_delay=wait_s)


def forgo_retries() -> None:
    """Let this run not be started over, however it ends."""
    _update(_read_this_run(), retries=0)


def _read_this_run() -> FlowRun:
    with get_client(sync_client=True) as client:
        return client.read_flow_run(UUID(runtime.flow_run.id))


def _update(run: FlowRun, **fields: Any) -> None:
    policy = FlowRunPolicy.model_validate({**run.empirical_policy.model_dump(), **fields})
    with get_client(sync_client=True) as client:
        client.update_flow_run(run.id, empirical_policy=policy)
