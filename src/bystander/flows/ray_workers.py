"""Stage runs in the worker processes of a Ray cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psutil

from bystander.flows.cluster_futures import (
    ClusterFuture,
    find_prefect_server,
    list_worker_variables,
    say_amounts,
    using_server,
)
from bystander.flows.shared_store import look_for_part, require_shared_store
from bystander.schemas.errors import BystanderError, ConfigError, EngineSetupError, WorkerLostError
from bystander.schemas.runner_configs import RayResources, RayRunnerConfig, find_asks
from bystander.schemas.stage_job import StageJob
from bystander.storage.parts import Partition
from bystander.tasks.environment import close_environments
from bystander.tasks.run_stage import name_process, run_stage
from bystander.tasks.stages import get_stage

_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # A stage run without GPUs must not hide them from what its process opened before; Ray warns until this is set.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_GROUP = "BYSTANDER_WORKER_GROUP"
_OBJECT_STORE_BYTES = 128 << 20
"""Shared memory of a cluster started here. Rows never pass through it, only references and counts."""

_NODES_TIMEOUT_S = 60.0


@contextmanager
def open_workers(config: RayRunnerConfig, workers: int) -> Iterator[Any]:
    """Start a cluster or connect to one, and yield what submits stage runs to it.

    Raises:
        ConfigError: the cluster cannot be connected to.
        EngineSetupError: no node has what a stage run is to occupy.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray
    from prefect_ray import RayTaskRunner

    own = not ray.is_initialized()  # else it takes what is there, and leaves it
    url = find_prefect_server()
    runner = RayTaskRunner(init_kwargs=_describe_cluster(config, workers, url))
    try:
        runner.__enter__()
    except Exception as exc:  # Ray raises whatever it meets: sockets, versions, its own
        where = config.address or "on this machine"
        hint = "" if "RAY_AUTH_MODE" in os.environ else "; if it asks for a token, set RAY_AUTH_MODE=token"
        raise ConfigError(f"Ray cluster {where}: cannot be used ({_shorten(exc)}){hint}") from exc
    processes: set[str] = set()
    try:
        yield _RaySubmit(runner, config, url, processes)
    finally:
        if own and processes:
            with suppress(Exception):  # nodes may be gone, and what they held with them
                _run_on_nodes(end_processes, sorted(processes))
        runner.__exit__(None, None, None)


class _RaySubmit:
    """Submits stage runs, each with what it occupies."""

    def __init__(self, runner: Any, config: RayRunnerConfig, url: str, processes: set[str] | None = None) -> None:
        self.runner = runner
        self._config = config
        self.url = url
        self._processes = set() if processes is None else processes
        self._options: dict[str, dict[str, Any]] = {}
        self._shared_stores: set[str] = set()
        for name, asked in config.resources.items():
            self._require_node(name, asked)

    def __call__(self, stage: str, name: str, partition: Partition, job: StageJob) -> ClusterFuture:
        from prefect_ray.context import remote_options

        if self._config.address is not None and job.store not in self._shared_stores:
            require_shared_store(job.store, _ask_nodes)
            self._shared_stores.add(job.store)
        if stage not in self._options:
            self._options[stage] = self._find_options(stage)
        parameters = {"stage_name": stage, "partition_name": name, "partition": partition, "job": job}
        with using_server(self.url), remote_options(**self._options[stage]):
            future = self.runner.submit(run_stage, parameters)
        return ClusterFuture(future, explain_failure, lambda report: self._processes.add(report.process))

    def _find_options(self, stage: str) -> dict[str, Any]:
        definition = get_stage(stage)
        roles = [*definition.engines, *definition.optional_engines]
        asks = find_asks(self._config.resources, stage, roles)
        asked = combine_resources(asks.values())
        if len(asks) > 1:
            self._require_node(f"{stage}, which is that of {' and '.join(asks)}", asked)
        return describe_options(asked, "+".join(sorted(asks)))

    def _require_node(self, what: str, asked: RayResources) -> None:
        """Raise where no node could ever run a stage: Ray itself would wait for one for ever."""
        import ray

        if self._config.autoscales:
            return
        wanted = list_amounts(asked)
        nodes = [node["Resources"] for node in ray.nodes() if node.get("Alive", node.get("alive"))]
        if not any(all(node.get(name, 0) >= amount for name, amount in wanted.items()) for node in nodes):
            most = {name: max((node.get(name, 0) for node in nodes), default=0) for name in wanted}
            raise EngineSetupError(
                f"runner.resources.{what}: no node of the Ray cluster has {say_amounts(wanted)}; the most that one has "
                f"is {say_amounts(most)}"
            )


def end_processes(processes: Sequence[str]) -> None:
    """End those of Ray's worker processes that run on this machine, each after it has closed its engines."""
    own = name_process()
    host = own.rpartition(":")[0]
    ending = []
    for process in processes:
        name, _, pid = process.rpartition(":")
        with suppress(psutil.Error):
            if process == own:
                close_environments()
            elif name == host and (found := psutil.Process(int(pid))).name().startswith("ray::"):
                found.terminate()  # of this, Python's exit handlers hear; of Ray's own way, they do not
                ending.append(found)
    psutil.wait_procs(ending, timeout=_NODES_TIMEOUT_S)


def _ask_nodes(uri: str, path: str) -> list[tuple[str, bool]]:
    return _run_on_nodes(look_for_part, uri, path)


def _run_on_nodes(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Return what a function of no Prefect task returns on each node, as far as they answer in time."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    run = ray.remote(num_cpus=0, max_retries=0)(function)
    nodes = [node["NodeID"] for node in ray.nodes() if node.get("Alive", node.get("alive"))]
    asked = [
        run.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(*arguments)
        for node in nodes
    ]
    answered, _ = ray.wait(asked, num_returns=len(asked), timeout=_NODES_TIMEOUT_S)
    return list(ray.get(answered))


def combine_resources(asks: Iterable[RayResources]) -> RayResources:
    """Return the most of each resource; of none, the default."""
    asked = list(asks)
    if not asked:
        return RayResources()
    custom = {name for ask in asked for name in ask.custom}
    return RayResources(
        num_cpus=max(ask.num_cpus for ask in asked),
        num_gpus=max(ask.num_gpus for ask in asked),
        memory_mib=max((ask.memory_mib for ask in asked if ask.memory_mib is not None), default=None),
        custom={name: max(ask.custom.get(name, 0) for ask in asked) for name in sorted(custom)},
    )


def list_amounts(asked: RayResources) -> dict[str, float]:
    """Return amounts by the names under which Ray's nodes list them."""
    amounts = {"CPU": asked.num_cpus, "GPU": asked.num_gpus, **asked.custom}
    if asked.memory_mib is not None:
        amounts["memory"] = float(asked.memory_mib << 20)
    return {name: amount for name, amount in amounts.items() if amount}


def describe_options(asked: RayResources, group: str) -> dict[str, Any]:
    """Return the options of Ray for a stage run that occupies `asked`.

    Stage runs that ask for GPUs, memory or custom resources go to processes of a group of their own. Without that, any
    process may run any stage, and in time each would hold every model.
    """
    options: dict[str, Any] = {
        "num_cpus": asked.num_cpus,
        "num_gpus": asked.num_gpus,
        "resources": asked.custom,
        "max_calls": 0,  # Ray ends a process after one GPU task unless told not to; engines stay open here
        "max_retries": 0,  # `stream_partitions` runs a partition again
    }
    if asked.memory_mib is not None:
        options["memory"] = asked.memory_mib << 20
    if asked.num_gpus or asked.custom or asked.memory_mib is not None:
        options["runtime_env"] = {"env_vars": {_GROUP: group}}
    return options


def explain_failure(exc: Exception) -> Exception:
    """Return what an exception of Ray's means: a process died, or none can run stages at all."""
    from ray import exceptions

    if isinstance(exc, BystanderError):
        return exc
    if isinstance(exc, exceptions.RayTaskError | exceptions.RuntimeEnvSetupError):
        return EngineSetupError(
            f"a worker process of the Ray cluster cannot run stages ({_shorten(exc)}); install the same packages on "
            "all nodes"
        )
    if isinstance(exc, exceptions.RayError):
        return WorkerLostError(f"a worker process of the Ray cluster died ({_shorten(exc)})")
    return exc


def _describe_cluster(config: RayRunnerConfig, workers: int, url: str) -> dict[str, Any]:
    """Return the arguments of `ray.init`."""
    settings: dict[str, Any] = {
        "address": config.address or "local",
        "logging_level": logging.ERROR,
        "log_to_driver": False,
        "runtime_env": {"env_vars": list_worker_variables(url)},
    }
    if config.address is None:
        settings |= {
            "num_cpus": config.num_cpus or workers,
            "include_dashboard": False,
            "object_store_memory": _OBJECT_STORE_BYTES,
        }
        if config.num_gpus is not None:
            settings["num_gpus"] = config.num_gpus
    return settings


def _shorten(exc: Exception) -> str:
    """Return the first sentence of an exception: Ray's run to pages."""
    lines = [line for line in str(exc).splitlines() if line.strip()]
    cause = exc.__cause__
    return f"{type(exc).__name__}: {(str(cause) if cause else lines[-1] if lines else '')[:300]}"
