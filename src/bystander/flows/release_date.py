"""The date that a run's release is called by: that of the day for which the run was scheduled."""

from __future__ import annotations

from datetime import UTC, date, datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from prefect import runtime
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse


def find_release_date() -> date:
    """Return the date for which this run was first scheduled, in the time zone of its schedule.

    A run that is retried, however late, keeps it. One that was started by hand has the time zone of the deployment's
    first schedule, and without any schedule UTC.
    """
    with get_client(sync_client=True) as client:
        run = client.read_flow_run(UUID(runtime.flow_run.id))
        # The run itself only knows its last schedule, which a retry moves.
        states = sorted(client.read_flow_run_states(run.id), key=lambda state: state.timestamp)
        deployment = client.read_deployment(run.deployment_id) if run.deployment_id else None
    planned = (states[0].state_details.scheduled_time or states[0].timestamp) if states else run.expected_start_time
    zone = _find_time_zone(run, deployment) if deployment else "UTC"
    return (planned or datetime.now(UTC)).astimezone(ZoneInfo(zone)).date()


def _find_time_zone(run: FlowRun, deployment: DeploymentResponse) -> str:
    maker = run.created_by.id if run.created_by else None
    # The schedule that made the run, if one did, comes first.
    schedules = sorted(deployment.schedules, key=lambda schedule: schedule.id != maker)
    zones = (getattr(schedule.schedule, "timezone", None) for schedule in schedules)
    return next((zone for zone in zones if zone), "UTC")
