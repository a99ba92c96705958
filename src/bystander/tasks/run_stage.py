"""The Prefect task that runs one stage over one partition, and the fingerprint that saves running it twice."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run

from bystander.schemas.errors import EngineSetupError
from bystander.schemas.identity import digest_json
from bystander.schemas.stage_job import StageJob
from bystander.schemas.stages import Stage, StageContext
from bystander.storage.parts import Partition, read_partition_columns, trace_columns
from bystander.storage.stage_results import StageResult, find_result, find_result_of_input, remember_input, write_result
from bystander.tasks.engine_use import EngineUse
from bystander.tasks.environment import StageEnvironment, borrow_environment
from bystander.tasks.stage_description import describe_once, digest_parts
from bystander.tasks.stages import get_stage


def find_finished(stage: Stage, partition: Partition, environment: StageEnvironment) -> StageResult | None:
    """Return the stored result of an unchanged stage over an unchanged partition, reading no data, or None."""
    key = _digest_input(describe_once(stage, environment), partition)
    return find_result_of_input(environment.store, stage.name, key)


def find_equal(stage: Stage, partition: Partition, environment: StageEnvironment) -> StageResult | None:
    """Return the stored result of an unchanged stage over a partition whose columns that it uses have not changed.

    Unlike `find_finished`, it reads which rows each stage before kept.

    Raises:
        CorruptPartError: a part of the partition is lost or damaged.
    """
    return find_result(environment.store, stage.name, _fingerprint(stage, partition, environment))


def execute_stage(stage: Stage, partition: Partition, environment: StageEnvironment) -> StageResult:
    """Run a stage over a partition, or return what it made of the same rows before.

    Raises:
        CorruptPartError: a part of the partition is lost or damaged.
        EngineError: an engine failed as a whole.
        StageContractError: the stage broke its contract.
    """
    store = environment.store
    described = describe_once(stage, environment)
    input_digest = _digest_input(described, partition)
    result = find_result_of_input(store, stage.name, input_digest)
    if result is not None:
        return result
    fingerprint = _fingerprint(stage, partition, environment)
    result = find_result(store, stage.name, fingerprint)
    if result is None:
        rows = read_partition_columns(store, partition, stage.needed, recent=environment.recent)
        context = StageContext(
            build_seed=environment.job.build_seed,
            params=environment.params_of(stage),
            taxonomy=environment.taxonomy,
            pack=environment.pack,
            engines=environment.engines_of(stage),
            exclusions=environment.exclusions_of(stage),
        )
        output = stage(rows, context)
        result = write_result(store, stage.name, fingerprint, rows, output, stage.writes.names, environment.recent)
    remember_input(store, stage.name, input_digest, fingerprint)
    return result


@dataclass(frozen=True, slots=True)
class StageReport:
    """What comes back from a stage run in some process: references and counts, no rows."""

    result: StageResult
    use: EngineUse
    """How the engines of that process were used since its last report."""
    described: Mapping[str, str]
    """Digests of what decides the stage's results, as that process has it."""
    process: str
    """Host and number of that process."""


def report_stage(stage: Stage, partition: Partition, environment: StageEnvironment) -> StageReport:
    """Run a stage as `execute_stage` does, and report on it to the process that will `accept_report`."""
    result = execute_stage(stage, partition, environment)
    return StageReport(result, environment.take_use(), digest_parts(describe_once(stage, environment)), name_process())


def accept_report(report: StageReport, stage: Stage, environment: StageEnvironment) -> StageResult:
    """Count what a report says of the engines, and return its result.

    Raises:
        EngineSetupError: the process that ran the stage has another engine, pack or version of the stage than this one:
            its result would not be found again, and belongs to another build.
    """
    environment.add_use(report.use)
    if report.process != name_process():
        own = digest_parts(describe_once(stage, environment))
        differing = [name for name in own if own[name] != report.described.get(name)]
        if differing or own.keys() != report.described.keys():
            raise EngineSetupError(
                f"stage {stage.name}: worker process {report.process} differs from this one in "
                f"{', '.join(differing) or 'its version'}; install the same packages, models and prompt packs on all "
                "machines"
            )
    return report.result


@task(
    task_run_name="{stage_name}-{partition_name}",
    cache_policy=NO_CACHE,
    persist_result=False,
    log_prints=False,
)
def run_stage(
    stage_name: str,
    partition_name: str,  # noqa: ARG001 - Prefect names the task run after it
    partition: Partition,
    job: StageJob,
) -> StageReport:
    """Run a stage over a partition in this worker. Partitions come and go by reference; only counts travel.

    It is not Prefect that tries again after a failure: Prefect sleeps in the worker's thread, which then neither does
    anything else nor can be woken when the build has failed meanwhile. `stream_partitions` does both.
    """
    with borrow_environment(job, str(flow_run.id)) as environment:
        return report_stage(get_stage(stage_name), partition, environment)


def _fingerprint(stage: Stage, partition: Partition, environment: StageEnvironment) -> str:
    columns = trace_columns(environment.store, partition, stage.needed, environment.recent)
    return digest_json([describe_once(stage, environment), columns])


def _digest_input(described: dict[str, Any], partition: Partition) -> str:
    return digest_json([described, partition.digest()])


def name_process() -> str:
    """Return host and number of this process."""
    return f"{socket.gethostname()}:{os.getpid()}"
