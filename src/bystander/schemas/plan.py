"""What a plan of a build is made from, and what it says."""

from __future__ import annotations

from importlib import resources
from typing import Literal

import yaml
from pydantic import Field, model_validator

from bystander.schemas.stages import Params

PlannedRole = Literal["writer", "judge", "speech", "recogniser"]
"""The engines whose work a plan counts. Verifiers take next to nothing beside them."""

PLANNED_ROLES: tuple[PlannedRole, ...] = ("writer", "judge", "speech", "recogniser")


class Yield(Params):
    """Of `rows_in` rows that a stage read, `kept` went on: how good the stage's share is known, too."""

    rows_in: int = Field(ge=0)
    kept: int = Field(ge=0)

    @model_validator(mode="after")
    def _keeps_no_more_than_it_read(self) -> Yield:
        if self.kept > self.rows_in:
            raise ValueError(f"kept {self.kept} of {self.rows_in} rows")
        return self

    @property
    def share(self) -> float:
        """The share kept; 1 where nothing was read."""
        return self.kept / self.rows_in if self.rows_in else 1.0


class BuildMeasures(Params):
    """What one row costs and how many are lost: measured in a finished build, or assumed.

    Stages that are not named lose nothing.
    """

    source: str
    """Where the figures come from, in words."""
    engines: dict[str, str] = Field(default_factory=dict)
    """Kind and model of the engine of each role, where the figures were measured; empty where they are assumed."""
    yields: dict[str, Yield] = Field(default_factory=dict)
    labels: dict[str, int] = Field(default_factory=dict)
    """Accepted two-speaker rows by label, before quotas. Labels that are not named are as frequent as each other."""
    ambiguous: Yield
    """Accepted two-speaker rows, and those of them that are ambiguous enough for a hard negative."""
    write_tries: float = Field(ge=1)
    """Texts asked for, a row that passed; the same of replies, of replies to one speaker, and of tracks."""
    reply_tries: float = Field(ge=1)
    one_speaker_reply_tries: float = Field(ge=1)
    track_tries: float = Field(ge=1)
    primary_characters: float = Field(gt=0)
    """Mean length of the spoken primary text, of the third party's line, and of a reply."""
    third_party_characters: float = Field(gt=0)
    reply_characters: float = Field(gt=0)
    speech_s_per_character: float = Field(gt=0)
    """Seconds of a finished clip by character of its texts; the overlap makes a pair's clip a little shorter."""
    flac_bytes_per_s: float = Field(gt=0)
    """Bytes of a published row by second of its clip, text included."""


class EngineRate(Params):
    """What one device does. Null: the engine does no such work, or takes no time worth counting."""

    device: Literal["gpu", "cpu", "none"]
    """One GPU, or the CPU threads that the source names."""
    generated_tokens_per_s: float | None = Field(None, gt=0)
    prompt_tokens_per_s: float | None = Field(None, gt=0)
    """Of those parts of prompts that no prefix cache holds."""
    audio_s_per_s: float | None = Field(None, gt=0)
    """Seconds of audio spoken or recognised a second."""
    source: str


class PlanAssumptions(Params):
    """All that a plan assumes where nothing was measured, each with its source."""

    measures: BuildMeasures
    rates: dict[str, EngineRate]
    """By kind of engine."""
    tokens_per_character: float = Field(gt=0)
    template_tokens_per_message: float = Field(ge=0)
    thinking_share: tuple[float, float, float]
    """Of a judge's budget of reasoning tokens, what it uses a question: at least, expected, at most."""
    track_bytes_per_s: int = Field(gt=0)
    """Of the clean tracks that the cache keeps (16 bits, 24 kHz, WAV)."""
    sources: dict[str, str]
    """Where those figures come from, by field."""


class Estimate(Params):
    """A figure with the range in which nine of ten simulated builds lie; further ranges are multiplied in."""

    expected: float
    low: float
    high: float


class CallPlan(Params):
    """Calls of one task of a text engine."""

    role: Literal["writer", "judge"]
    task: str
    calls: Estimate
    prompt_tokens: Estimate
    cached_prompt_tokens: Estimate
    """Of them, those in the constant beginning, which a server's prefix cache holds."""
    generated_tokens: Estimate
    """Thinking included."""


class RolePlan(Params):
    """What an engine has to do, and how long its devices take."""

    role: PlannedRole
    engine: str
    model: str
    device: Literal["gpu", "cpu", "none"]
    devices: int
    hours: Estimate | None
    """Device hours, of one device that does nothing else; null where no rate is known."""
    rate: str
    """The rate and where it comes from."""


class PlanReport(Params):
    """What a build will take."""

    dataset: str
    profile: str
    rows: int
    yields_from: str
    candidates: Estimate
    requests: Estimate
    """Queries needed, at the configured draws a query."""
    requests_there: int
    waves: Estimate
    stages: dict[str, Estimate]
    """Rows into each stage."""
    calls: tuple[CallPlan, ...]
    roles: tuple[RolePlan, ...]
    tracks: Estimate
    """Tracks spoken, new tries included."""
    spoken_hours: Estimate
    """Hours of audio that the speech engine makes, and the recogniser hears."""
    published_hours: Estimate
    cache_gb: Estimate
    shards_gb: Estimate
    rejects_gb: Estimate
    partition_mb: float
    """Audio of one partition, which is in memory at once for every worker."""
    task_runs: Estimate
    task_run_share: float
    """Expected task runs by row."""
    hours: Estimate | None
    """From the first call to the last: `low` and `expected` where all engines are busy side by side, so that the
    slowest decides; `high` where they work one after another."""
    slowest: PlannedRole | None
    gpu_hours: Estimate | None
    """Hours of GPUs at work, and of all GPUs from start to end; null without GPUs or where a rate is missing."""
    gpu_hours_held: Estimate | None
    price_per_gpu_hour: float | None = None
    warnings: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()


def load_assumptions() -> PlanAssumptions:
    """Return the assumptions that ship with the package."""
    text = (resources.files("bystander.schemas") / "data" / "plan_assumptions.yaml").read_text("utf-8")
    return PlanAssumptions.model_validate(yaml.safe_load(text))
