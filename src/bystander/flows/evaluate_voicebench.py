"""The flow that scores systems on VoiceBench: answers, verdicts, figures, publication."""

from __future__ import annotations

from typing import Any

from prefect import flow, tags
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from bystander.flows.check_evaluate_voicebench import check_evaluate_voicebench
from bystander.flows.listeners import current_listener
from bystander.flows.prefect_housekeeping import (
    fail_abandoned_flow_runs,
    mark_this_process,
    owner_tag,
    start_temporary_server,
    stop_orphaned_servers,
)
from bystander.flows.prefect_listener import PrefectListener
from bystander.flows.voicebench_evaluation import VoiceBenchEvaluation, VoiceBenchOutcome
from bystander.schemas.errors import CorruptPartError
from bystander.schemas.evaluate_voicebench_config import EvaluateVoiceBenchConfig
from bystander.storage.build_lock import lock_build
from bystander.storage.evaluation_manifest import EVALUATIONS
from bystander.storage.filesystem import open_store
from bystander.storage.stage_results import discard_result_of_part
from bystander.tasks.environment import close_environments

_MAX_REPAIRS = 5
"""Times that an evaluation starts over from its stored results because one of them turned out damaged."""


@flow(name="evaluate-voicebench", flow_run_name="{config.evaluation_name}", validate_parameters=True)
def evaluate_voicebench(config: EvaluateVoiceBenchConfig) -> VoiceBenchOutcome:
    """Score systems on VoiceBench as configured, going on from whatever an earlier run finished.

    Raises:
        UserError: the configuration, a file of VoiceBench, an engine's set-up is wrong, or answers are missing.
        BuildError: another process is making this evaluation.
    """
    check_evaluate_voicebench(config)
    store = open_store(config.store)
    listener = PrefectListener(current_listener(), config.evaluation_name)
    try:
        with lock_build(store, EVALUATIONS, config.evaluation_name):
            for repair in range(_MAX_REPAIRS + 1):
                try:
                    outcome = VoiceBenchEvaluation(config, store, listener).run()
                    listener.publish_summary(outcome.summary, outcome.location)
                    return outcome
                except CorruptPartError as damage:
                    if repair == _MAX_REPAIRS:
                        raise
                    listener.on_phase(f"making a damaged part again: {damage}")
                    discard_result_of_part(store, damage.path)
            raise AssertionError("unreachable")
    finally:
        close_environments()


def run_evaluate_voicebench(config: EvaluateVoiceBenchConfig) -> VoiceBenchOutcome:
    """Run the flow in this process, on as many threads as configured, and clear up what killed runs left behind."""
    mark = mark_this_process()
    stop_orphaned_servers()
    start_temporary_server()
    fail_abandoned_flow_runs()
    runner: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=config.workers)
    with tags(owner_tag(mark), f"evaluation:{config.evaluation_name}"):
        return evaluate_voicebench.with_options(task_runner=runner)(config)
