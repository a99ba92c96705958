"""The flow that builds SID-Bench: turns with their break point, near-silent clips and noise, to be scored on."""

from __future__ import annotations

from prefect import flow

from bystander.flows.flow_runs import run_flow
from bystander.flows.sid_build import SidOutcome, foresee_sid_build, run_sid_build
from bystander.schemas.rebuild import RebuildPlan
from bystander.schemas.sid import SID_BENCH_SPLIT
from bystander.schemas.sid_config import SidBenchConfig


@flow(name="build-sid-bench", flow_run_name="{config.dataset}-seed-{config.seed}", validate_parameters=True)
def build_sid_bench(config: SidBenchConfig) -> SidOutcome:
    """Build SID-Bench as configured, going on from whatever an earlier run finished.

    Raises:
        UserError: the configuration, an input file, prompts, an engine's set-up is wrong.
        BuildError: there is not a single row to publish, or another process is making this build.
    """
    return run_sid_build(config, "sid_bench", SID_BENCH_SPLIT)


def run_build_sid_bench(config: SidBenchConfig) -> SidOutcome:
    """Run the flow in this process, on as many threads as configured, and clear up what killed runs left behind."""
    return run_flow(build_sid_bench, config, config.workers, f"dataset:{config.dataset}")


def foresee_build_sid_bench(config: SidBenchConfig, against: str | None = None) -> RebuildPlan:
    """Return what a run would reuse and redo beside an earlier build; see `foresee_sid_build`."""
    return foresee_sid_build(config, "sid_bench", SID_BENCH_SPLIT, against)
