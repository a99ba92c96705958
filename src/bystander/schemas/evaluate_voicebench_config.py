"""The configuration of an evaluation on VoiceBench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field, model_validator

from bystander.schemas.config import lay_over, validate_fields
from bystander.schemas.evaluation_settings import EvaluationConfig, JudgeParams
from bystander.schemas.field_types import MAX_ROWS
from bystander.schemas.stages import Params
from bystander.schemas.voicebench import PARTS, PARTS_BY_NAME, PartName


class AnswerVoicebench(Params):
    """`answer_voicebench`: nothing to set beyond the candidate itself."""


class JudgeVoicebench(JudgeParams):
    """`judge_voicebench`: one call a row, for the parts with open or reference answers."""

    max_answer_characters: int = Field(6000, ge=100, le=6000)
    """Longer answers are cut to this for the judge, who is told so."""


class VoiceBenchStages(Params):
    """Settings of the stages."""

    answer_voicebench: AnswerVoicebench = AnswerVoicebench()
    judge_voicebench: JudgeVoicebench = JudgeVoicebench()


class EvaluateVoiceBenchConfig(EvaluationConfig):
    """All that decides an evaluation on VoiceBench. Only parts with open or reference answers need judges."""

    NAME_PREFIX: ClassVar[str] = "voicebench"

    data: str = ""
    """Folder of the local copy, with one folder a part."""
    parts: tuple[PartName, ...] = tuple(part.name for part in PARTS)
    splits: dict[PartName, tuple[str, ...]] = Field(default_factory=dict)
    """Splits to read instead of a part's own, e.g. the accents of sd_qa."""
    rows: int | None = Field(None, ge=1, le=MAX_ROWS)
    """Only so many rows of each part, the first ones; null for all."""
    published: bool = False
    """Whether the tables show the figures of the TPI paper's Table 3 beside the systems'."""
    stages: VoiceBenchStages = VoiceBenchStages()

    @model_validator(mode="after")
    def _parts_differ(self) -> EvaluateVoiceBenchConfig:
        if not self.parts:
            raise ValueError(f"parts: name at least one of {', '.join(PARTS_BY_NAME)}")
        if len(set(self.parts)) < len(self.parts):
            raise ValueError("parts: one of them is named twice")
        return self


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
