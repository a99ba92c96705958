"""Stage runs in the worker processes of a Dask cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from bystander.flows.cluster_futures import (
    ClusterFuture,
    find_prefect_server,
    list_worker_variables,
    say_amounts,
    using_server,
)
from bystander.flows.shared_store import look_for_part, require_shared_store
from bystander.schemas.errors import BystanderError, ConfigError, EngineSetupError, WorkerLostError
from bystander.schemas.runner_configs import DaskRunnerConfig, find_asks
from bystander.schemas.stage_job import StageJob
from bystander.storage.parts import Partition
from bystander.tasks.environment import close_lent
from bystander.tasks.run_stage import run_stage
from bystander.tasks.stages import get_stage

_CLOSING_TIMEOUT_S = 60.0


@contextmanager
def open_workers(config: DaskRunnerConfig, workers: int) -> Iterator[Any]:
    """Start a cluster or connect to one, and yield what submits stage runs to it.

    Raises:
        ConfigError: the cluster cannot be connected to.
        EngineSetupError: no worker has what a stage run is to occupy.
    """
    import dask
    from prefect.runtime import flow_run
    from prefect_dask import DaskTaskRunner

    # Python's keeper of semaphores outlives a run that was stopped, and would have its say after our last word.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker")
    url = find_prefect_server()
    if config.address is None:
        runner = DaskTaskRunner(cluster_kwargs=_describe_cluster(config, workers, url))
    else:
        runner = DaskTaskRunner(address=config.address)
    # `stream_partitions` runs a partition again whose worker died, and counts how often.
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        runner.__enter__()
        try:
            client = runner.client
        except Exception as exc:  # sockets, versions, and what else it meets
            runner.__exit__(None, None, None)
            where = config.address or "on this machine"
            raise ConfigError(f"Dask cluster {where}: cannot be used ({type(exc).__name__}: {exc})") from exc
    try:
        yield _DaskSubmit(runner, config, url)
    finally:
        with suppress(Exception):  # workers may be gone; what they held went with them
            client.run(close_lent, str(flow_run.id), on_error="ignore", timeout=_CLOSING_TIMEOUT_S)
        runner.__exit__(None, None, None)


class _DaskSubmit:
    """Submits stage runs, each with what it occupies."""

    def __init__(self, runner: Any, config: DaskRunnerConfig, url: str) -> None:
        self.runner = runner
        self._config = config
        self.url = url
        self._asked: dict[str, dict[str, float]] = {}
        self._shared_stores: set[str] = set()
        for name, asked in config.resources.items():
            self._require_worker(name, asked)

    def __call__(self, stage: str, name: str, partition: Partition, job: StageJob) -> ClusterFuture:
        import dask

        if self._config.address is not None and job.store not in self._shared_stores:
            require_shared_store(job.store, self._ask_workers)
            self._shared_stores.add(job.store)
        if stage not in self._asked:
            self._asked[stage] = self._find_asked(stage)
        parameters = {"stage_name": stage, "partition_name": name, "partition": partition, "job": job}
        annotations = {"resources": self._asked[stage]} if self._asked[stage] else {}
        with using_server(self.url), dask.annotate(**annotations):
            future = self.runner.submit(run_stage, parameters)
        return ClusterFuture(future, explain_failure)

    def _ask_workers(self, uri: str, path: str) -> list[tuple[str, bool]]:
        return list(self.runner.client.run(look_for_part, uri, path).values())

    def _find_asked(self, stage: str) -> dict[str, float]:
        definition = get_stage(stage)
        roles = [*definition.engines, *definition.optional_engines]
        asks = find_asks(self._config.resources, stage, roles)
        asked = combine_amounts(asks.values())
        if len(asks) > 1:
            self._require_worker(f"{stage}, which is that of {' and '.join(asks)}", asked)
        return asked

    def _require_worker(self, what: str, asked: Mapping[str, float]) -> None:
        """Raise where no worker could ever run a stage: Dask itself would wait for one for ever."""
        if self._config.autoscales:
            return
        offers = [one["resources"] for one in self.runner.client.scheduler_info(n_workers=-1)["workers"].values()]
        if not any(all(offer.get(name, 0) >= amount for name, amount in asked.items()) for offer in offers):
            most = {name: max((offer.get(name, 0) for offer in offers), default=0) for name in asked}
            raise EngineSetupError(
                f"runner.resources.{what}: none of the {len(offers)} workers of the Dask cluster offers "
                f"{say_amounts(asked)}; the most that one offers is {say_amounts(most)}"
            )


def combine_amounts(asks: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the most of each resource."""
    combined: dict[str, float] = {}
    for ask in asks:
        for name, amount in ask.items():
            combined[name] = max(amount, combined.get(name, 0))
    return {name: amount for name, amount in sorted(combined.items()) if amount}


def explain_failure(exc: Exception) -> Exception:
    """Return what an exception of Dask's means: a process died, or none can run stages at all."""
    from distributed.client import FutureCancelledError
    from distributed.scheduler import KilledWorker

    if isinstance(exc, KilledWorker):
        return WorkerLostError(f"a worker process of the Dask cluster died ({exc.last_worker.address})")
    if isinstance(exc, FutureCancelledError):
        return WorkerLostError(f"the Dask cluster lost a stage run ({exc})")
    if isinstance(exc, ImportError | AttributeError | TypeError) and not isinstance(exc, BystanderError):
        return EngineSetupError(
            f"a worker process of the Dask cluster cannot run stages ({type(exc).__name__}: {exc}); install the same "
            "packages on all of its machines"
        )
    return exc


def _describe_cluster(config: DaskRunnerConfig, workers: int, url: str) -> dict[str, Any]:
    """Return the arguments of `distributed.LocalCluster`."""
    return {
        "n_workers": config.n_workers or max(1, workers // config.threads_per_worker),
        "threads_per_worker": config.threads_per_worker,
        "processes": True,
        "memory_limit": config.memory_limit_mib << 20 if config.memory_limit_mib else 0,
        "resources": config.offers or None,
        "dashboard_address": None,
        "silence_logs": logging.CRITICAL,
        "env": list_worker_variables(url),
    }
