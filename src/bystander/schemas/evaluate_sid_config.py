"""The configuration of an evaluation of interruption detection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from bystander.schemas.config import lay_over, validate_fields
from bystander.schemas.detector_configs import DetectorConfig
from bystander.schemas.evaluation_settings import EvaluationSettings, check_names
from bystander.schemas.field_types import MAX_ROWS
from bystander.schemas.identity import digest_json
from bystander.schemas.sid_evaluation_params import SidEvaluationStages


class EvaluateSidConfig(EvaluationSettings):
    """All that decides an evaluation of interruption detection on SID-Bench, or on a bench like it."""

    NAME_PREFIX: ClassVar[str] = "sid"

    bench: str = ""
    """Folder or URL of a finished build of SID rows; or published references, a JSONL file or a folder of them."""
    audio: str | None = None
    """Folder or URL of the clips of references; without it, they lie beside them. Predictions alone need none."""
    rows: int | None = Field(None, ge=1, le=MAX_ROWS)
    """Only so many clips of each language and category, the first ones; null for all."""
    detectors: dict[str, DetectorConfig] = Field(default_factory=dict)
    predictions: dict[str, str] = Field(default_factory=dict)
    """System to its predictions: JSONL file, or folder of them, as SID-Bench publishes them."""
    allow_missing: bool = False
    """Whether predictions may leave clips out; they then count as never stopped."""
    tolerance_s: float | None = Field(0.05, ge=0, le=10)
    """A stop this close to the break is exact: no penalty, and left out of IRL. Null for none."""
    penalty_cap_s: float | None = Field(None, gt=0)
    """Most that a false alarm in a clip without speech may cost in a second APT shown beside the first."""
    resample_by: Literal["recording", "case"] = "recording"
    """What the bootstrap draws: recordings, where they are known, or single cases."""
    published: bool = True
    """Whether tables and page show the figures of the SID paper's Tables II and III below the systems'."""
    worst_examples: int = Field(8, ge=0, le=1000)
    """Clips that the page plays: those that cost most, as far as the bench has their sound."""
    stages: SidEvaluationStages = SidEvaluationStages()

    @property
    def systems(self) -> tuple[str, ...]:
        """Names of all systems, detectors first."""
        return (*self.detectors, *self.predictions)

    @model_validator(mode="after")
    def _names_make_files(self) -> EvaluateSidConfig:
        check_names(self.systems)
        if len({name.casefold() for name in self.systems}) < len(self.systems):
            raise ValueError("detectors and predictions: two systems would share a file; give them other names")
        return self

    def content_digest(self) -> str:
        """Return a digest of what decides the scores, but for the contents of the files that it names."""
        outside = {"name", "store", "profile", "detectors", *self.SPEED_ONLY}
        detectors = {name: engine.describe() for name, engine in self.detectors.items()}
        return digest_json([self.model_dump(mode="json", exclude=outside), detectors])


def load_sid_evaluation_config(
    files: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    detectors: Mapping[str, Any] | None = None,
    predictions: Mapping[str, str] | None = None,
) -> EvaluateSidConfig:
    """Return the configuration of YAML files, detectors and predictions added to theirs, and dotted overrides over all.

    Raises:
        ConfigError: names the file or field that is wrong.
    """
    data = lay_over({}, files, {})
    for key, named in (("detectors", detectors), ("predictions", predictions)):
        if named:
            data[key] = {**(data.get(key) or {}), **named}
    return validate_fields(EvaluateSidConfig, lay_over(data, (), overrides or {}), "custom")
