"""The flow that builds SID training data: what SID-Bench has, in a split to be trained on."""

from __future__ import annotations

from prefect import flow

from bystander.flows.flow_runs import run_flow
from bystander.flows.sid_build import SidOutcome, foresee_sid_build, run_sid_build
from bystander.schemas.rebuild import RebuildPlan
from bystander.schemas.sid import SID_TRAIN_SPLIT
from bystander.schemas.sid_config import SidTrainConfig


@flow(name="build-sid-train", flow_run_name="{config.dataset}-seed-{config.seed}", validate_parameters=True)
def build_sid_train(config: SidTrainConfig) -> SidOutcome:
    """Build SID training data as configured, going on from whatever an earlier run finished.

    Raises:
        UserError: the configuration, an input file, prompts, an engine's set-up is wrong.
        BuildError: there is not a single row to publish, or another process is making this build.
    """
    return run_sid_build(config, "sid_train", SID_TRAIN_SPLIT)


def run_build_sid_train(config: SidTrainConfig) -> SidOutcome:
    """Run the flow in this process, on as many threads as configured, and clear up what killed runs left behind."""
    return run_flow(build_sid_train, config, config.workers, f"dataset:{config.dataset}")


def foresee_build_sid_train(config: SidTrainConfig, against: str | None = None) -> RebuildPlan:
    """Return what a run would reuse and redo beside an earlier build; see `foresee_sid_build`."""
    return foresee_sid_build(config, "sid_train", SID_TRAIN_SPLIT, against)
