"""Sends partitions through a chain of stages, each on its own, so that all engines are busy at once."""

from __future__ import annotations

import queue
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from bystander.flows.stage_workers import StageFuture, Submit, current_workers
from bystander.schemas.engines import EngineRole
from bystander.schemas.errors import BatchPendingError, BystanderError, CorruptPartError, WorkerLostError
from bystander.schemas.stage_job import StageJob
from bystander.schemas.stages import Stage
from bystander.storage.parts import Partition
from bystander.storage.stage_results import StageResult, discard_result_of_part
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.run_stage import accept_report, find_finished

_MAX_REBUILDS = 3
"""Times that damaged parts of one partition are rebuilt before the build gives up."""
_RETRY_DELAYS_S = (5.0, 20.0, 60.0)
"""Pauses before a stage is tried again whose engine is overloaded or out of reach, on top of the engine's own."""


class Listener(Protocol):
    """Is told what happens, from the flow's own thread."""

    def on_phase(self, phase: str) -> None: ...

    def on_result(self, stage: str, result: StageResult, reused: bool) -> None: ...


@dataclass(slots=True)
class Journey:
    """A partition on its way: where it stands, and what each stage made of it."""

    name: str
    start: Partition
    partition: Partition
    results: list[tuple[Partition, StageResult]] = field(default_factory=list)
    """For each stage passed: the partition that it read, and its result."""
    rebuilds: int = 0
    retries: int = 0
    """Times that its present stage was tried again."""
    due: float = 0.0
    """When it is tried again, by the monotonic clock."""

    @property
    def step(self) -> int:
        return len(self.results)


def stream_partitions(
    partitions: Mapping[str, Partition],
    stages: Sequence[Stage],
    environment: StageEnvironment,
    listener: Listener,
    limits: Mapping[EngineRole, int],
    workers: int,
    submit: Submit | None = None,
    retry_delays_s: Sequence[float] = _RETRY_DELAYS_S,
) -> list[Journey]:
    """Send every partition through all stages and return their journeys, in the order given.

    What is finished already is not submitted. `limits` bounds how many partitions use one engine role at once; among
    those that may go on, the one furthest along goes first, so that few are open at a time. Without `submit`, they
    go to the workers of this context.

    A stage whose error is `retryable` is tried again after each of `retry_delays_s`. Until then its partition keeps its
    place at the engine, so that no other is sent there in vain, but no worker. One whose worker process died is tried
    again at once, as often. One that waits for a batch is left where it is, and the others go on as far as they can.
    Any other error ends the stream at once.

    Raises:
        BatchPendingError: batches wait to be answered.
        BystanderError: what a stage raised, when retrying did not help.
    """
    journeys = [Journey(name, partition, partition) for name, partition in partitions.items()]
    arrived = list(journeys)
    waiting: list[Journey] = []
    resting: list[Journey] = []
    running: Counter[str] = Counter()
    in_flight = 0
    pending: Counter[str] = Counter()
    done: queue.SimpleQueue[tuple[Journey, StageFuture]] = queue.SimpleQueue()
    job: StageJob = environment.job
    submit = submit or current_workers().submit

    def advance(journey: Journey, result: StageResult) -> None:
        listener.on_result(result.stage, result, result.reused)
        journey.results.append((journey.partition, result))
        journey.partition = journey.partition.extend(result.kept)
        journey.retries = 0

    def find_next(journey: Journey) -> list[StageResult]:
        partition, found = journey.partition, list[StageResult]()
        for stage in stages[journey.step :]:
            finished = find_finished(stage, partition, environment)
            if finished is None:
                break
            found.append(finished)
            partition = partition.extend(finished.kept)
        return found

    def arrive(journey: Journey, future: StageFuture) -> None:
        done.put((journey, future))

    while arrived or waiting or resting or in_flight:
        for journey, found in zip(arrived, environment.store.map(find_next, arrived), strict=True):
            for finished in found:
                advance(journey, finished)
            if journey.step < len(stages):
                waiting.append(journey)
        arrived = []
        for journey in [journey for journey in resting if journey.due <= time.monotonic()]:
            resting.remove(journey)
            running.subtract(stages[journey.step].engines)
            waiting.insert(0, journey)
        waiting.sort(key=lambda journey: -journey.step)
        for journey in list(waiting):
            stage = stages[journey.step]
            if in_flight >= workers:
                break
            if any(running[role] >= limits.get(role, workers) for role in stage.engines):
                continue
            waiting.remove(journey)
            running.update(stage.engines)
            in_flight += 1
            future = submit(stage.name, journey.name, journey.partition, job)
            future.add_done_callback(partial(arrive, journey))
        if not (in_flight or resting):
            continue
        patience_s = max(0.0, min(journey.due for journey in resting) - time.monotonic()) if resting else None
        try:
            journey, future = done.get(timeout=patience_s)
        except queue.Empty:
            continue
        in_flight -= 1
        result = future.result(raise_on_failure=False)
        if isinstance(result, BystanderError) and result.retryable and journey.retries < len(retry_delays_s):
            delay_s = 0.0 if isinstance(result, WorkerLostError) else retry_delays_s[journey.retries]
            when = f"in {delay_s:g} s" if delay_s else "now"
            listener.on_phase(f"{stages[journey.step].name}: {result}; trying again {when}")
            journey.retries += 1
            journey.due = time.monotonic() + delay_s
            resting.append(journey)
            continue
        running.subtract(stages[journey.step].engines)
        if isinstance(result, CorruptPartError) and journey.rebuilds < _MAX_REBUILDS:
            discard_result_of_part(environment.store, result.path)
            journey.rebuilds += 1
            journey.partition, journey.results = journey.start, []
        elif isinstance(result, BatchPendingError):
            pending[result.script] += result.requests  # the others may have more to ask, for the same run
            continue
        elif isinstance(result, WorkerLostError):
            raise WorkerLostError(
                f"{stages[journey.step].name} of {journey.name}: {result}, {journey.retries + 1} times; if it runs out "
                "of memory, lower partition_rows, or have fewer processes on a machine"
            ) from result
        elif isinstance(result, BaseException):
            raise result
        else:
            advance(journey, accept_report(result, stages[journey.step], environment))
        arrived.append(journey)
    if pending:
        raise BatchPendingError(" and ".join(sorted(pending)), sum(pending.values()))
    return journeys
