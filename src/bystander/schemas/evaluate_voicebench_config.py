"""The configuration of an evaluation on VoiceBench."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, model_validator

from bystander.schemas.config import lay_over, validate_fields
from bystander.schemas.engine_configs import CandidateConfig, TextEngineConfig
from bystander.schemas.field_types import MAX_ROWS, NAME, NAME_IN_WORDS, Name, PartitionRows, Seed, Workers
from bystander.schemas.identity import digest_json
from bystander.schemas.stages import Params
from bystander.schemas.voicebench import PARTS, PARTS_BY_NAME, PartName


class AnswerVoicebench(Params):
    """`answer_voicebench`: nothing to set beyond the candidate itself."""


class JudgeVoicebench(Params):
    """`judge_voicebench`: one call a row, at temperature 0."""

    max_attempts: int = Field(2, ge=1, le=5)
    """Calls before a verdict counts as unparsable, each with a new seed."""
    max_tokens: int = Field(256, ge=32)
    max_answer_characters: int = Field(6000, ge=100, le=6000)
    """Longer answers are cut to this for the judge, who is told so."""


class VoiceBenchStages(Params):
    """Settings of the stages."""

    answer_voicebench: AnswerVoicebench = AnswerVoicebench()
    judge_voicebench: JudgeVoicebench = JudgeVoicebench()


class EvaluateVoiceBenchConfig(Params):
    """All that decides an evaluation on VoiceBench. `partition_rows` and `workers` change its speed only."""

    profile: str = "custom"
    name: Name | None = None
    """Name of the evaluation's folder; without one, it is derived from the configuration."""
    data: str = ""
    """Folder of the local copy, with one folder a part."""
    parts: tuple[PartName, ...] = tuple(part.name for part in PARTS)
    splits: dict[PartName, tuple[str, ...]] = Field(default_factory=dict)
    """Splits to read instead of a part's own, e.g. the accents of sd_qa."""
    rows: int | None = Field(None, ge=1, le=MAX_ROWS)
    """Only so many rows of each part, the first ones; null for all."""
    store: str = "bystander-store"
    """Folder or URL; the evaluation lies in `evaluations/<name>` of it."""
    seed: Seed = 0
    systems: dict[str, CandidateConfig] = Field(default_factory=dict)
    judges: dict[str, TextEngineConfig] = Field(default_factory=dict)
    """Needed by the parts with open or reference answers."""
    allow_missing: bool = False
    """Whether a system may leave rows unanswered; they then count as the worst answer."""
    published: bool = False
    """Whether the tables show the figures of the TPI paper's Table 3 beside the systems'."""
    confidence: float = Field(0.95, gt=0, lt=1)
    resamples: int = Field(2000, ge=100, le=1_000_000)
    stages: VoiceBenchStages = VoiceBenchStages()
    partition_rows: PartitionRows = 64
    workers: Workers = 2

    @model_validator(mode="after")
    def _names_are_usable(self) -> EvaluateVoiceBenchConfig:
        if not self.parts:
            raise ValueError(f"parts: name at least one of {', '.join(PARTS_BY_NAME)}")
        if len(set(self.parts)) < len(self.parts):
            raise ValueError("parts: one of them is named twice")
        odd = [name for name in (*self.systems, *self.judges) if not re.fullmatch(NAME, name)]
        if odd:
            raise ValueError(f"{odd[0]!r} is no name for a system or judge: use {NAME_IN_WORDS}")
        files = [f"{system}.{judge}".casefold() for system in self.systems for judge in self.judges]
        if len(set(files)) < len(files) or len({name.casefold() for name in self.systems}) < len(self.systems):
            raise ValueError("systems and judges: two of them would share a file; give them names that differ more")
        return self

    def content_digest(self) -> str:
        """Return a digest of what decides the scores, but for the contents of the files that it names."""
        outside = {"name", "store", "workers", "partition_rows", "profile", "systems", "judges"}
        engines = [{name: engine.describe() for name, engine in named.items()} for named in (self.systems, self.judges)]
        return digest_json([self.model_dump(mode="json", exclude=outside), engines])

    @property
    def evaluation_name(self) -> str:
        return self.name or f"voicebench-{self.content_digest()[:12]}"


def load_voicebench_config(
    files: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    systems: Mapping[str, Any] | None = None,
    judges: Mapping[str, Any] | None = None,
) -> EvaluateVoiceBenchConfig:
    """Return the configuration of YAML files, systems and judges added to theirs, and dotted overrides over it all.

    Raises:
        ConfigError: names the file or field that is wrong.
    """
    data = lay_over({}, files, {})
    for key, named in (("systems", systems), ("judges", judges)):
        if named:
            data[key] = {**(data.get(key) or {}), **named}
    return validate_fields(EvaluateVoiceBenchConfig, lay_over(data, (), overrides or {}), "custom")
