"""What a study found, as `report.json` holds it: all figures that the page shows."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from bystander.schemas.study import StudyKind

DropReason = Literal["failed_traps", "too_fast", "unfinished"]
DROP_REASONS: tuple[DropReason, ...] = ("failed_traps", "too_fast", "unfinished")
"""Why a rater does not count, in this order: one who fails in two ways is counted under the first."""

BreakdownKey = Literal["category", "scenario", "label", "timing"]
BREAKDOWNS: tuple[BreakdownKey, ...] = ("label", "timing", "category", "scenario")


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RatingFigure(_Section):
    """A mean of ratings. `low` and `high`: Student's t, ratings taken as independent; `clustered_*`: raters and items
    as clusters. What is undefined is null."""

    mean: float | None
    sd: float | None
    low: float | None
    high: float | None
    clustered_low: float | None
    clustered_high: float | None
    n: int
    raters: int
    items: int


class RatedQuestion(_Section):
    """Answers to a question about one system's replies, or about the scenes where `system` is null."""

    question: str
    system: str | None
    figure: RatingFigure
    counts: dict[str, int]
    """By value of the options, how often it was chosen."""
    breakdowns: dict[BreakdownKey, dict[str, RatingFigure]]


class PreferenceFigure(_Section):
    """Two systems, or a system's satisfied and dissatisfied users where `second` is null: over all (`part` null) or
    over the rows of one label. Fields as those of `tasks.metrics.preference_tests.Preference`."""

    first: str
    second: str | None
    part: str | None
    wins: int
    ties: int
    losses: int
    share: float | None
    low: float | None
    high: float | None
    p: float | None
    p_by_rater: float | None
    raters: int

    @property
    def n(self) -> int:
        return self.wins + self.ties + self.losses


class TableComparison(_Section):
    """Whether two systems' tables of satisfaction differ by the chi-square test, which takes answers as independent."""

    first: str
    second: str
    p: float | None


class AlphaFigure(_Section):
    """Krippendorff's alpha of a question; null with the reason where it is undefined."""

    question: str
    scale: str
    alpha: float | None
    items: int
    ratings: int
    reason: str | None = None


class JudgeCorrelation(_Section):
    """Means of people's ratings of replies against a judge's scores of the same replies; `system` null: of all."""

    evaluation: str
    judge: str
    system: str | None
    metric: str
    n: int
    pearson: float | None
    pearson_p: float | None
    spearman: float | None
    spearman_p: float | None
    undefined: str | None = None


class TrapFigure(_Section):
    """How often traps of a kind were answered, and how often wrongly."""

    kind: str
    shown: int
    failed: int


class StudyReport(_Section):
    """Everything that was found. Figures are over the raters that are kept; traps are over all."""

    format: Literal["bystander-study-report"] = "bystander-study-report"
    format_version: Literal[1] = 1
    name: str
    kind: StudyKind
    confidence: float
    max_failed_traps: int
    min_seconds: float | None
    keep_unfinished: bool
    raters: int
    kept: int
    dropped: dict[DropReason, int] = Field(default_factory=dict)
    answers: int
    """Answers about items, of all raters."""
    ratings: int
    """Those of raters that are kept."""
    median_seconds: float | None
    traps: tuple[TrapFigure, ...] = ()
    questions: tuple[RatedQuestion, ...] = ()
    preferences: tuple[PreferenceFigure, ...] = ()
    comparisons: tuple[TableComparison, ...] = ()
    alphas: tuple[AlphaFigure, ...] = ()
    correlations: tuple[JudgeCorrelation, ...] = ()
    code_version: str
