"""Published figures on VoiceBench, for showing them beside one's own in a table."""

from __future__ import annotations

from importlib import resources

import yaml
from pydantic import BaseModel, ConfigDict, Field, field_validator

from bystander.schemas.voicebench import PARTS_BY_NAME, PartName
from bystander.tasks.metrics.published_results import PublishedSource
from bystander.tasks.metrics.voicebench.part_scores import SCALES

_BUILTIN = "data/published_voicebench_results.yaml"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PublishedVoiceBenchSystem(_Frozen):
    """A system's published scores: 1 to 5 for parts with open answers, else 0 to 1. Not all parts need be there."""

    name: str = Field(min_length=1)
    scores: dict[PartName, float] = Field(min_length=1)

    @field_validator("scores")
    @classmethod
    def _scores_are_on_their_scales(cls, scores: dict[PartName, float]) -> dict[PartName, float]:
        for part, score in scores.items():
            lowest, highest = SCALES[PARTS_BY_NAME[part].kind]
            if not lowest <= score <= highest:
                raise ValueError(f"{part} {score:g} is not from {lowest} to {highest}")
        return scores


class PublishedVoiceBench(_Frozen):
    """Systems in the order of the source's table."""

    source: PublishedSource
    systems: tuple[PublishedVoiceBenchSystem, ...] = Field(min_length=1)


def load_published_voicebench() -> PublishedVoiceBench:
    """Return Table 3 of the TPI paper, which ships with the package."""
    text = resources.files("bystander.tasks.metrics").joinpath(_BUILTIN).read_text("utf-8")
    return PublishedVoiceBench.model_validate(yaml.safe_load(text))
