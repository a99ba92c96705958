"""How Prefect behaves under our command line: offline, quiet, patient with slow machines.

Only sets what the user has not set. Must run before Prefect is imported; this module therefore imports nothing of it.
"""

from __future__ import annotations

import os

_SETTINGS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    # The temporary server needs 11 to 27 s to start on a slow machine; Prefect's own limit is 20 s.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    # Task-run events come in bursts; small batches lag behind.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
}


def configure_prefect(log_level: str = "ERROR") -> None:
    """Set Prefect's environment variables where the user has not."""
    for name, value in {**_SETTINGS, "PREFECT_LOGGING_LEVEL": log_level}.items():
        os.environ.setdefault(name, value)
