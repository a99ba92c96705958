"""Where stage runs go, as data: threads of this process, a Ray cluster, a Dask cluster. It decides no row.

Loading a config imports neither Ray nor Dask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, TypeVar

from pydantic import Field, model_validator

from bystander.schemas.engines import EngineRole
from bystander.schemas.stages import Params

PartitionsAtEngine = dict[EngineRole, Annotated[int, Field(ge=1, le=100_000)]]
"""Role to the number of partitions that may use its engine at once."""
Amount = Annotated[float, Field(ge=0, le=1_000_000)]
DEFAULT = "default"
"""Key of `resources`: stages for which there is no other."""
_Ask = TypeVar("_Ask")


class ThreadsRunnerConfig(Params):
    """Threads of the flow's own process, as many as `workers`; all share one set of engines."""

    runner: Literal["threads"] = "threads"


class RayResources(Params):
    """What a stage run occupies on a node of a Ray cluster. It goes where so much is free."""

    num_cpus: Amount = 1.0
    num_gpus: Amount = 0.0
    """GPUs; Ray shows a worker process those that it was given (`CUDA_VISIBLE_DEVICES`). A half lets two share one."""
    memory_mib: int | None = Field(None, ge=1)
    custom: dict[str, Amount] = Field(default_factory=dict)
    """Resources that nodes were started with: `ray start --resources='{"tts": 1}'`."""


class RayRunnerConfig(Params):
    """Worker processes of a Ray cluster, each with engines of its own; needs the extra `ray`.

    `resources` says what a stage run occupies, by the name of a stage, else by the roles of the engines that it uses
    (of several, the most of each resource), else by `default`.
    """

    runner: Literal["ray"] = "ray"
    address: str | None = None
    """Of a running cluster: `host:6379`, `ray://host:10001`, or `auto` for the one that this machine belongs to. Null
    starts a cluster on this machine for the run."""
    num_cpus: int | None = Field(None, ge=1, le=4096)
    """CPUs that a cluster started here hands out; null: as many as `workers`."""
    num_gpus: int | None = Field(None, ge=0, le=1024)
    """GPUs that a cluster started here hands out; null: those that Ray finds."""
    resources: dict[str, RayResources] = Field(default_factory=dict)
    autoscales: bool = False
    """Whether nodes join while a run is under way: then it is no error that none of those there now can run a stage."""

    @model_validator(mode="after")
    def _cluster_is_one(self) -> RayRunnerConfig:
        if self.address is not None and (self.num_cpus is not None or self.num_gpus is not None):
            raise ValueError("num_cpus and num_gpus are for a cluster started here; that at `address` has its own")
        return self


class DaskRunnerConfig(Params):
    """Worker processes of a Dask cluster, each with engines of its own; needs the extra `dask`.

    `resources` is found as a Ray runner's is; its amounts are what the workers were started with
    (`dask worker --resources "GPU=1"`). Dask only counts them: start one worker a GPU and show it that GPU.
    """

    runner: Literal["dask"] = "dask"
    address: str | None = None
    """Of a running scheduler, `tcp://host:8786`. Null starts a cluster on this machine for the run."""
    n_workers: int | None = Field(None, ge=1, le=4096)
    """Processes that a cluster started here has; null: `workers` over `threads_per_worker`."""
    threads_per_worker: int = Field(1, ge=1, le=256)
    """Stage runs at once in each process of a cluster started here; they share its engines."""
    memory_limit_mib: int | None = Field(None, ge=64)
    """A process of a cluster started here that holds more is ended, and its partition run again; null: no limit."""
    offers: dict[str, Amount] = Field(default_factory=dict)
    """Resources that each process of a cluster started here offers."""
    resources: dict[str, dict[str, Amount]] = Field(default_factory=dict)
    autoscales: bool = False
    """Whether workers join while a run is under way: then it is no error that none of those there now can run a
    stage."""

    @model_validator(mode="after")
    def _cluster_is_one(self) -> DaskRunnerConfig:
        if self.address is not None and {"n_workers", "threads_per_worker", "memory_limit_mib", "offers"} & {
            *self.model_fields_set
        }:
            raise ValueError(
                "n_workers, threads_per_worker, memory_limit_mib and offers are for a cluster started here; that at "
                "`address` has its own"
            )
        return self


TaskRunnerConfig = Annotated[
    ThreadsRunnerConfig | RayRunnerConfig | DaskRunnerConfig,
    Field(discriminator="runner"),
]


def find_asks(resources: Mapping[str, _Ask], stage: str, roles: Iterable[str]) -> dict[str, _Ask]:
    """Return the entries of `resources` that hold for a stage that uses engines of these roles, by their keys.

    That is its own, or else those of its roles, or else the default; none where nothing is said.
    """
    for names in ((stage,), tuple(roles), (DEFAULT,)):
        found = {name: resources[name] for name in names if name in resources}
        if found:
            return found
    return {}
