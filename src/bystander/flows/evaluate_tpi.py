"""The flow that scores systems on TPI-Bench: answers, verdicts, figures, publication."""

from __future__ import annotations

from prefect import flow

from bystander.flows.bench_pack import judge_by_bench_pack
from bystander.flows.check_evaluate_tpi import check_evaluate_tpi
from bystander.flows.evaluation_flow import EvaluationOutcome, run_evaluation
from bystander.flows.flow_runs import run_flow
from bystander.flows.tpi_evaluation import TpiEvaluation
from bystander.schemas.evaluate_config import EvaluateTpiConfig
from bystander.schemas.evaluation_scores import EvaluationScores
from bystander.storage.pinned_builds import pin_bench


@flow(name="evaluate-tpi", flow_run_name="{config.evaluation_name}", validate_parameters=True)
def evaluate_tpi(config: EvaluateTpiConfig) -> EvaluationOutcome[EvaluationScores]:
    """Score systems on a bench as configured, going on from whatever an earlier run finished.

    Raises:
        UserError: the configuration, the bench, a file, the pack, an engine's set-up is wrong, or answers are missing.
        BuildError: the bench is damaged, or another process is making this evaluation.
    """
    config = judge_by_bench_pack(config)
    check_evaluate_tpi(config)
    return run_evaluation(config, lambda store, listener: TpiEvaluation(config, store, listener).run())


def run_evaluate_tpi(config: EvaluateTpiConfig) -> EvaluationOutcome[EvaluationScores]:
    """Run the flow in this process, on as many threads as configured, and clear up what killed runs left behind."""
    config = judge_by_bench_pack(pin_bench(config))  # the evaluation's name comes from both
    return run_flow(evaluate_tpi, config, config.workers, f"evaluation:{config.evaluation_name}")
