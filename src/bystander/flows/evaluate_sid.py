"""The flow that scores interruption detection: stops, figures, publication."""

from __future__ import annotations

from prefect import flow

from bystander.flows.check_evaluate_sid import check_evaluate_sid
from bystander.flows.evaluation_flow import EvaluationOutcome, run_evaluation
from bystander.flows.flow_runs import run_flow
from bystander.flows.sid_evaluation import SidEvaluation
from bystander.schemas.evaluate_sid_config import EvaluateSidConfig
from bystander.schemas.sid_evaluation_scores import SidScores
from bystander.storage.pinned_builds import pin_bench


@flow(name="evaluate-sid", flow_run_name="{config.evaluation_name}", validate_parameters=True)
def evaluate_sid(config: EvaluateSidConfig) -> EvaluationOutcome[SidScores]:
    """Score detectors and predictions on a bench as configured, going on from whatever an earlier run finished.

    Raises:
        UserError: the configuration, the bench, a file, a detector's set-up is wrong, or predictions are missing.
        BuildError: the bench is damaged, or another process is making this evaluation.
    """
    check_evaluate_sid(config)
    return run_evaluation(config, lambda store, listener: SidEvaluation(config, store, listener).run())


def run_evaluate_sid(config: EvaluateSidConfig) -> EvaluationOutcome[SidScores]:
    """Run the flow in this process, on as many threads as configured, and clear up what killed runs left behind."""
    config = pin_bench(config)
    return run_flow(evaluate_sid, config, config.workers, f"evaluation:{config.evaluation_name}")
