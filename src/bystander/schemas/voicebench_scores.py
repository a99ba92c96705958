"""What an evaluation on VoiceBench found, as its `scores.json` holds it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from bystander.schemas.evaluation_scores import Estimate, RaterInfo
from bystander.schemas.voicebench import PartName, ScoreKind


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class VoiceBenchPartInfo(_Section):
    """What was read of a part: files with their splits, usable rows, and how many were rejected for what reason."""

    part: PartName
    splits: tuple[str, ...]
    rows: int = Field(ge=0)
    rejected: dict[str, int] = Field(default_factory=dict)


class VoiceBenchPartScore(_Section):
    """A system's score on a part, from 1 to 5 for open answers and else from 0 to 1; higher is better.

    `judge` is null where the score needs none. `missing` rows have no answer and count as the worst; `unparsable` rows
    count as wrong in multiple choice (the answer names no letter, or several), and are left out of the mean in judged
    parts (the verdict cannot be read). `details`: the four accuracies of IFEval; of SD-QA, the share of answers that
    hold the words of the reference.
    """

    system: str
    judge: str | None
    part: PartName
    kind: ScoreKind
    estimate: Estimate
    rows: int
    missing: int = 0
    unparsable: int = 0
    details: dict[str, float | None] = Field(default_factory=dict)


class VoiceBenchScores(_Section):
    """Everything that was measured."""

    format: Literal["bystander-voicebench"] = "bystander-voicebench"
    format_version: Literal[1] = 1
    name: str
    seed: int
    confidence: float
    data: str
    parts: tuple[VoiceBenchPartInfo, ...]
    rubrics_digest: str
    systems: tuple[RaterInfo, ...]
    judges: tuple[RaterInfo, ...]
    scores: tuple[VoiceBenchPartScore, ...]
    code_version: str
    packages: dict[str, str] = Field(default_factory=dict)
