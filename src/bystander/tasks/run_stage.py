"""The Prefect task that runs one stage over one partition, and the fingerprint that saves running it twice."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from bystander.schemas.errors import ConfigError
from bystander.schemas.identity import digest_json
from bystander.schemas.stages import Stage, StageContext
from bystander.storage.parts import Partition, read_partition_columns, trace_columns
from bystander.storage.stage_results import StageResult, find_result, find_result_of_input, remember_input, write_result
from bystander.tasks.environment import StageEnvironment, StageJob, open_environment
from bystander.tasks.stages import get_stage


def describe_stage(stage: Stage, environment: StageEnvironment) -> dict[str, Any]:
    """Return all that decides a stage's results besides its rows: the fields of its fingerprint.

    Raises:
        ConfigError: a folder of the user's is missing, or a file in it cannot be read.
    """
    params = environment.params_of(stage)
    return {
        "stage": stage.name,
        "version": stage.version,
        "build_seed": environment.job.build_seed,
        "params": params.model_dump(mode="json"),
        "files": [[name, _hash_file(path)] for name, path in stage.list_files(params)] if stage.list_files else [],
        "engines": {role: engine.identity.describe() for role, engine in environment.engines_of(stage).items()},
        "prompts": {task: environment.pack.task_digest(task) for task in stage.text_tasks},
        # Stages look at the classes' keys whether or not a template shows them: no text may leak one.
        "classes": [[item.key, [kind.key for kind in item.kinds]] for item in environment.pack.classes]
        if stage.text_tasks
        else [],
        "pack": environment.pack.digest if stage.writes_pack else None,
        "taxonomy": environment.taxonomy.digest() if stage.uses_taxonomy else None,
        "exclusions": environment.exclusions_of(stage).digest,
    }


def _describe_once(stage: Stage, environment: StageEnvironment) -> dict[str, Any]:
    """Return what `describe_stage` does, found out once a build: nothing in it may change while a build is made."""
    known = environment.descriptions
    return (
        known[stage.name] if stage.name in known else known.setdefault(stage.name, describe_stage(stage, environment))
    )


def find_finished(stage: Stage, partition: Partition, environment: StageEnvironment) -> StageResult | None:
    """Return the stored result of an unchanged stage over an unchanged partition, reading no data, or None."""
    key = _digest_input(_describe_once(stage, environment), partition)
    return find_result_of_input(environment.store, stage.name, key)


def execute_stage(stage: Stage, partition: Partition, environment: StageEnvironment) -> StageResult:
    """Run a stage over a partition, or return what it made of the same rows before.

    Raises:
        CorruptPartError: a part of the partition is lost or damaged.
        EngineError: an engine failed as a whole.
        StageContractError: the stage broke its contract.
    """
    store = environment.store
    described = _describe_once(stage, environment)
    input_digest = _digest_input(described, partition)
    result = find_result_of_input(store, stage.name, input_digest)
    if result is not None:
        return result
    fingerprint = digest_json([described, trace_columns(store, partition, stage.needed, environment.recent)])
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
) -> StageResult:
    """Run a stage over a partition in this worker. Partitions come and go by reference; only counts travel.

    It is not Prefect that tries again after a failure: Prefect sleeps in the worker's thread, which then neither does
    anything else nor can be woken when the build has failed meanwhile. `stream_partitions` does both.
    """
    return execute_stage(get_stage(stage_name), partition, open_environment(job))


def _hash_file(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read ({exc.strerror})") from exc


def _digest_input(described: dict[str, Any], partition: Partition) -> str:
    return digest_json([described, partition.digest()])
