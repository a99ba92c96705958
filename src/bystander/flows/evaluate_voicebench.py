"""The flow that scores systems on VoiceBench: answers, verdicts, figures, publication."""

from __future__ import annotations

from prefect import flow

from bystander.flows.check_evaluate_voicebench import check_evaluate_voicebench
from bystander.flows.evaluation_flow import EvaluationOutcome, run_evaluation
from bystander.flows.flow_runs import run_flow
from bystander.flows.voicebench_evaluation import VoiceBenchEvaluation
from bystander.schemas.evaluate_voicebench_config import EvaluateVoiceBenchConfig
from bystander.schemas.voicebench_scores import VoiceBenchScores


@flow(name="evaluate-voicebench", flow_run_name="{config.evaluation_name}", validate_parameters=True)
def evaluate_voicebench(config: EvaluateVoiceBenchConfig) -> EvaluationOutcome[VoiceBenchScores]:
    """Score systems on VoiceBench as configured, going on from whatever an earlier run finished.

    Raises:
        UserError: the configuration, a file of VoiceBench, an engine's set-up is wrong, or answers are missing.
        BuildError: another process is making this evaluation.
    """
    check_evaluate_voicebench(config)
    return run_evaluation(config, lambda store, listener: VoiceBenchEvaluation(config, store, listener).run())


def run_evaluate_voicebench(config: EvaluateVoiceBenchConfig) -> EvaluationOutcome[VoiceBenchScores]:
    """Run the flow in this process, on as many threads as configured, and clear up what killed runs left behind."""
    return run_flow(evaluate_voicebench, config, config.workers, f"evaluation:{config.evaluation_name}")
