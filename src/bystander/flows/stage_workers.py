"""Where the stage runs of a flow go: to threads of its process, or to the worker processes of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from bystander.schemas.engines import EngineRole
from bystander.schemas.runner_configs import DaskRunnerConfig, RayRunnerConfig, TaskRunnerConfig
from bystander.schemas.stage_job import StageJob
from bystander.storage.parts import Partition
from bystander.tasks.run_stage import run_stage

SHARED_ROLES: frozenset[EngineRole] = frozenset({"writer", "judge", "tagger", "second_tagger", "candidate"})
"""Roles of engines that are mostly servers, which all processes ask: more processes give them no more slots."""


class StageFuture(Protocol):
    """A stage run that was submitted."""

    def add_done_callback(self, call: Callable[[Any], None], /) -> None: ...

    def result(self, *, raise_on_failure: bool) -> Any:
        """Return its `StageReport`, or the exception that it ended with."""
        ...


Submit = Callable[[str, str, Partition, StageJob], StageFuture]


class Limited(Protocol):
    """What is read of the configuration of a build or an evaluation."""

    @property
    def workers(self) -> int: ...

    @property
    def runner(self) -> TaskRunnerConfig: ...

    @property
    def partitions_at_engine(self) -> Mapping[EngineRole, int]: ...


@dataclass(frozen=True, slots=True)
class StageWorkers:
    """Takes stage runs, and knows how many partitions may use an engine at once."""

    submit: Submit = run_stage.submit
    in_processes: bool = False
    """Whether stage runs go to several processes, each with engines of its own."""
    partitions_at_engine: Mapping[EngineRole, int] = field(default_factory=dict)

    def limit_roles(self, usual: Mapping[EngineRole, int]) -> dict[EngineRole, int]:
        """Return how many partitions may use an engine at once, from what is usual for one engine a role.

        In several processes only roles of shared servers have a usual limit: for the others, there are as many engines
        as processes, and what a stage run occupies says how many run at once.
        """
        limits = {role: count for role, count in usual.items() if not self.in_processes or role in SHARED_ROLES}
        return {**limits, **self.partitions_at_engine}


_workers: ContextVar[StageWorkers | None] = ContextVar("bystander_stage_workers", default=None)


def current_workers() -> StageWorkers:
    """Return the workers of this context: those of `stage_workers`, else the threads of the flow that runs."""
    return _workers.get() or StageWorkers()


@contextmanager
def stage_workers(config: Limited) -> Iterator[None]:
    """Have stage runs go where a configuration says while the block runs.

    A cluster of the flow's own is started, or a running one connected to, for the first stage run: where everything is
    finished already, none is.

    """
    runner = config.runner
    if not isinstance(runner, RayRunnerConfig | DaskRunnerConfig):
        workers = StageWorkers(partitions_at_engine=config.partitions_at_engine)
        token = _workers.set(workers)
        try:
            yield
        finally:
            _workers.reset(token)
        return
    with ExitStack() as stack:
        opened: list[Submit] = []

        def submit(stage: str, name: str, partition: Partition, job: StageJob) -> StageFuture:
            if not opened:
                cluster = import_module(f"bystander.flows.{runner.runner}_workers")
                opened.append(stack.enter_context(cluster.open_workers(runner, config.workers)))
            return opened[0](stage, name, partition, job)

        token = _workers.set(StageWorkers(submit, True, config.partitions_at_engine))
        try:
            yield
        finally:
            _workers.reset(token)
