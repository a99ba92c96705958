"""The settings that evaluations share, whatever they evaluate on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from pydantic import Field, model_validator

from bystander.schemas.engine_configs import CandidateConfig
from bystander.schemas.field_types import NAME, NAME_IN_WORDS, Name, PartitionRows, Seed, Workers
from bystander.schemas.identity import digest_json
from bystander.schemas.runner_configs import PartitionsAtEngine, TaskRunnerConfig, ThreadsRunnerConfig
from bystander.schemas.stages import Params
from bystander.schemas.text_engine_configs import TextEngineConfig


class JudgeParams(Params):
    """How a judge is asked for a verdict, at temperature 0."""

    max_attempts: int = Field(2, ge=1, le=5)
    """Calls before a verdict counts as unparsable, each with a new seed."""
    max_tokens: int = Field(256, ge=32)


class EvaluationSettings(Params):
    """What decides an evaluation of anything on any bench. Fields of `SPEED_ONLY` change no score."""

    NAME_PREFIX: ClassVar[str]
    """Begins the name of an evaluation that was given none."""
    SPEED_ONLY: ClassVar[frozenset[str]] = frozenset({"workers", "runner", "partitions_at_engine", "partition_rows"})

    profile: str = "custom"
    name: Name | None = None
    """Name of the evaluation's folder; without one, it is derived from the configuration."""
    store: str = "bystander-store"
    """Folder or URL; the evaluation lies in `evaluations/<name>` of it."""
    seed: Seed = 0
    confidence: float = Field(0.95, gt=0, lt=1)
    resamples: int = Field(2000, ge=100, le=1_000_000)
    partition_rows: PartitionRows = 64
    workers: Workers = 2
    runner: TaskRunnerConfig = ThreadsRunnerConfig()
    partitions_at_engine: PartitionsAtEngine = Field(default_factory=dict)
    """Partitions that may use an engine at once, by its role, where the usual number does not fit."""

    def content_digest(self) -> str:
        """Return a digest of what decides the scores, but for the contents of the files that it names."""
        raise NotImplementedError

    @property
    def evaluation_name(self) -> str:
        return self.name or f"{self.NAME_PREFIX}-{self.content_digest()[:12]}"


class EvaluationConfig(EvaluationSettings):
    """What decides an evaluation of systems that answer, by judges."""

    systems: dict[str, CandidateConfig] = Field(default_factory=dict)
    judges: dict[str, TextEngineConfig] = Field(default_factory=dict)
    allow_missing: bool = False
    """Whether a system may leave rows unanswered; they then count as the worst answer."""

    @model_validator(mode="after")
    def _names_make_files(self) -> EvaluationConfig:
        check_names((*self.systems, *self.judges))
        files = [f"{system}.{judge}".casefold() for system in self.systems for judge in self.judges]
        if len(set(files)) < len(files) or len({name.casefold() for name in self.systems}) < len(self.systems):
            raise ValueError("systems and judges: two of them would share a file; give them names that differ more")
        return self

    def content_digest(self) -> str:
        """Return a digest of what decides the scores, but for the contents of the files that it names."""
        outside = {"name", "store", "profile", "systems", "judges", *self.SPEED_ONLY}
        engines = [{name: engine.describe() for name, engine in named.items()} for named in (self.systems, self.judges)]
        return digest_json([self.model_dump(mode="json", exclude=outside), engines])


def check_names(names: Iterable[str]) -> None:
    """Raise a `ValueError` where a system, judge or rater has a name that no file can have."""
    odd = [name for name in names if not re.fullmatch(NAME, name)]
    if odd:
        raise ValueError(f"{odd[0]!r} is no name for a system or judge: use {NAME_IN_WORDS}")
