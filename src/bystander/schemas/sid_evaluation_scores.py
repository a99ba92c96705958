"""What an evaluation of interruption detection found, as its `scores.json` holds it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from bystander.schemas.evaluation_scores import Estimate, RaterInfo


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SidGroupScore(_Section):
    """A system's scores over a group of cases; `tasks.metrics.sid_summary.SidSummary` says what each figure is."""

    group: str
    cases: int = Field(ge=0)
    counts: dict[str, int]
    """Cases by outcome: TP, FP, FN, TN."""
    early: int = Field(ge=0)
    exact: int = Field(ge=0)
    after_end: int = Field(ge=0)
    fir: Estimate
    """False interruptions by all cases: the SID paper's."""
    fir_nonbreak: Estimate
    """False interruptions of clips without a break, by these: that of the README of SID-Bench."""
    early_rate: Estimate
    miss_rate: Estimate
    irl: Estimate
    irl_with_exact: Estimate
    apt: Estimate
    apt_capped: Estimate | None
    """With the cap on false alarms of clips without speech; null where none was asked for."""
    apt_parts: dict[str, float]
    """Seconds of APT by what brings them: late, early, false_alarm, missed."""

    @property
    def false_alarms(self) -> int:
        """The paper's FAN, where no case has a break."""
        return self.counts["FP"]


class SidBreakdown(_Section):
    """Scores by the values of one property: `key` is category, language and category, or source."""

    key: str
    groups: tuple[SidGroupScore, ...]


class SidPredictionInfo(_Section):
    """What a file of predictions had and lacked. `missing` cases count as never stopped."""

    unknown: int = Field(0, ge=0)
    doubled: int = Field(0, ge=0)
    missing: int = Field(0, ge=0)
    missing_with_break: int = Field(0, ge=0)


class SidComputeTime(_Section):
    """What a detector's computing took on this machine, apart from its latency, which counts what it had heard."""

    compute_s: float = Field(ge=0)
    heard_s: float = Field(ge=0)
    """Sound that it was fed in that time."""

    @property
    def real_time_factor(self) -> float | None:
        return self.compute_s / self.heard_s if self.heard_s else None


class SidPaperWeights(_Section):
    """Means over the groups weighted as the paper's bench is: EN 1600, ZH 1600, noise and silence 500."""

    fir: float
    apt: float


class SidSystemScore(_Section):
    """All of one system: groups are the bench's languages, `noise_silence` and, last, `average` over all cases."""

    system: str
    groups: tuple[SidGroupScore, ...]
    breakdowns: tuple[SidBreakdown, ...]
    latencies_s: tuple[float, ...]
    """Of the true positives that are not exact, ascending."""
    paper_weights: SidPaperWeights | None = None
    """Null where a group of the paper's has no case."""
    predictions: SidPredictionInfo | None = None
    compute: SidComputeTime | None = None

    def group(self, name: str) -> SidGroupScore | None:
        """Return the scores over a group; None if there is no such group."""
        return next((one for one in self.groups if one.group == name), None)

    def category(self, name: str) -> SidGroupScore | None:
        """Return the scores over a category; None if the bench has none of it."""
        found = (one for breakdown in self.breakdowns if breakdown.key == "category" for one in breakdown.groups)
        return next((one for one in found if one.group == name), None)


class SidExampleOutcome(_Section):
    """What a system did at an example."""

    system: str
    outcome: str
    early: bool
    stop_time_s: float | None
    penalty_s: float


class SidExampleScore(_Section):
    """A clip that cost a system much, and what all of them did."""

    id: str
    category: str
    language: str | None
    duration_s: float
    break_time_s: float | None
    text_with_break: str | None
    outcomes: tuple[SidExampleOutcome, ...]


class SidBenchInfo(_Section):
    """The bench that detectors heard."""

    uri: str
    dataset: str
    build: str
    digest: str
    cases: dict[str, int]
    """By group, `average` being all."""
    clusters: int
    """Recordings, and cases of none that is known: what is drawn in the bootstrap."""
    doubled: int = 0


class SidScores(_Section):
    """Everything that was measured."""

    format: Literal["bystander-sid-evaluation"] = "bystander-sid-evaluation"
    format_version: Literal[1] = 1
    name: str
    seed: int
    confidence: float
    tolerance_s: float | None
    penalty_cap_s: float | None
    resample_by: Literal["recording", "case"]
    bench: SidBenchInfo
    systems: tuple[RaterInfo, ...]
    scores: tuple[SidSystemScore, ...]
    examples: tuple[SidExampleScore, ...] = ()
    code_version: str
    packages: dict[str, str] = Field(default_factory=dict)
