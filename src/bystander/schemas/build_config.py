"""What the configurations of all builds share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, field_validator

from bystander.schemas.field_types import DatasetName, Name, PartitionRows, Seed, Workers
from bystander.schemas.identity import digest_json
from bystander.schemas.runner_configs import PartitionsAtEngine, TaskRunnerConfig, ThreadsRunnerConfig
from bystander.schemas.stages import Params


class BuildConfig(Params):
    """Base of the configurations of builds, each of which has its `engines` and sizes of its own."""

    SPEED_ONLY: ClassVar[frozenset[str]] = frozenset(
        {"build", "store", "workers", "runner", "partitions_at_engine", "partition_rows", "report_rows"}
    )
    """Fields that decide no row."""
    ADDRESSES: ClassVar[Mapping[str, Any]] = {}
    """Fields that say where something lies that is digested by itself, in the form of pydantic's `exclude`."""

    profile: str = "custom"
    dataset: DatasetName
    build: Name | None = None
    """Name of the build's folder; without one, it is derived from the configuration."""
    store: str = "bystander-store"
    """Folder or fsspec URL that holds builds and caches."""
    seed: Seed = 0
    engines: Params
    partition_rows: PartitionRows = 256
    workers: Workers = 2
    """Partitions in work at once: threads, or stage runs given to a cluster."""
    runner: TaskRunnerConfig = ThreadsRunnerConfig()
    partitions_at_engine: PartitionsAtEngine = Field(default_factory=dict)
    """Partitions that may use an engine at once, by its role, where the usual number does not fit."""
    max_waves: int = Field(50, ge=1, le=1_000_000)
    shard_mib: int = Field(256, ge=1, le=65_536)
    report_rows: int = Field(20, ge=0, le=10_000)

    @field_validator("build")
    @classmethod
    def _latest_is_no_name(cls, build: str | None) -> str | None:
        if build == "latest":
            raise ValueError("latest stands for the latest release; choose another name")
        return build

    def content_digest(self) -> str:
        """Return a digest of what decides the rows, besides the content of what lies at `ADDRESSES`.

        However the address of the same content is spelt, the digest is the same.
        """
        return self._digest(self.ADDRESSES)

    def _digest(self, left_out: Mapping[str, Any]) -> str:
        engines = {
            role: engine and engine.model_dump(mode="json", exclude=engine.SPEED_ONLY)
            for role in type(self.engines).model_fields
            for engine in [getattr(self.engines, role)]
        }
        idle = dict.fromkeys((*self.SPEED_ONLY, *self.idle_fields, "engines"), True)
        return digest_json([self.model_dump(mode="json", exclude={**left_out, **idle}), engines])

    @property
    def idle_fields(self) -> frozenset[str]:
        """Fields that other fields keep from having a say."""
        return frozenset()

    @property
    def build_name(self) -> str:
        return self.build or f"build-{self._digest({})[:12]}"
