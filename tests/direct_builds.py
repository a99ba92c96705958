"""Builds of TPI-Train in this thread, stage by stage, without Prefect: for tests that make many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bystander.flows import stage_workers
from bystander.flows.build_tpi_train import _TrainBuild
from bystander.flows.stage_workers import StageWorkers
from bystander.schemas.config import TpiTrainConfig
from bystander.schemas.stage_job import StageJob
from bystander.storage.parts import Partition
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.run_stage import StageReport, report_stage
from bystander.tasks.stages import get_stage
from tpi_builds import Built, Recorder


class _Done:
    """A stage run that is over."""

    def __init__(self, report: StageReport | BaseException) -> None:
        self._report = report

    def result(self, raise_on_failure: bool = True) -> Any:
        if raise_on_failure and isinstance(self._report, BaseException):
            raise self._report
        return self._report

    def add_done_callback(self, call: Callable[[Any], None]) -> None:
        call(self)


@contextmanager
def stages_in_this_thread(job: StageJob) -> Iterator[StageEnvironment]:
    """Run stages here while the block runs, in the environment that it gets."""
    environment = StageEnvironment(job)

    def submit(stage: str, name: str, partition: Partition, job: StageJob) -> Any:
        del name, job
        try:
            return _Done(report_stage(get_stage(stage), partition, environment))
        except Exception as exc:
            return _Done(exc)

    token = stage_workers._workers.set(StageWorkers(submit))
    try:
        yield environment
    finally:
        stage_workers._workers.reset(token)
        environment.close()


def build_directly(config: TpiTrainConfig) -> Built:
    """Make a build as its flow does."""
    heard = Recorder()
    with stages_in_this_thread(StageJob.of(config)) as environment:
        outcome = _TrainBuild(config, environment, heard).run()
    return Built(Path(outcome.location), outcome, heard)
