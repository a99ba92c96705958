"""What an evaluation found, as `scores.json` holds it: all figures that tables and pages show."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from bystander.schemas.evaluation import MetricName, TestName


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Estimate(_Section):
    """A mean over `n` rows with its bootstrapped confidence interval; all null where there is no row."""

    mean: float | None
    low: float | None
    high: float | None
    n: int = Field(ge=0)


class MetricScore(_Section):
    """A metric over the rows of a test. `missing` rows have no answer, `unparsable` ones an answer but no verdict.

    Missing ones count as the worst score (they are here only with `allow_missing`); unparsable ones are left out of the
    mean, since they are the judge's failure.
    """

    estimate: Estimate
    missing: int = 0
    unparsable: int = 0


class Breakdown(_Section):
    """A metric by the values of one property: `key` is scenario, category, label, timing or overlap."""

    key: str
    values: dict[str, dict[MetricName, Estimate]]


class TestScore(_Section):
    """A system under a judge on one test."""

    test: TestName
    rows: int
    metrics: dict[MetricName, MetricScore]
    breakdowns: tuple[Breakdown, ...] = ()


class PairScore(_Section):
    """How alike a system answers the two twins of a pair, in [0, 1]; lower is better. Needs no judge."""

    pairs: int
    bleu: Estimate
    rouge_l: Estimate


class SystemScore(_Section):
    """All of one system under one judge."""

    system: str
    judge: str
    tests: tuple[TestScore, ...]
    pairs: PairScore | None = None


class Comparison(_Section):
    """Two systems on the same rows: McNemar for `rsf`, Wilcoxon signed-rank for `oh`."""

    first: str
    second: str
    judge: str
    test: TestName
    metric: MetricName
    method: str
    statistic: float | None
    p: float
    difference: float
    """Mean of `first` minus that of `second`."""
    effect_size: float | None = None
    n: int


class Agreement(_Section):
    """Two raters on the same answers: judges, or a judge and people. Undefined figures are null, with the reason."""

    first: str
    second: str
    system: str
    test: TestName
    metric: MetricName
    n: int
    pearson: float | None
    p: float | None
    kappa: float | None
    """Cohen's kappa for `rsf`, quadratic-weighted for `oh`."""
    undefined: str | None = None


class Control(_Section):
    """How well something that is no assistant tells two-speaker rows from one-speaker rows: AUC, 0.5 is chance.

    `name` says who tries and over which rows: the twins of the bench's pairs, or all rows. Over twins, what sees the
    transcript alone is at 0.5, and what hears is near 1 if the bench can be solved by ear. `pairs` were scored whole.
    """

    name: str
    hears: bool
    auc: float | None
    low: float | None
    high: float | None
    pairs: int
    method: str
    note: str = ""


class RaterInfo(_Section):
    """A system or a judge: the identity of its engine, as `EngineIdentity.describe()` gives it."""

    name: str
    identity: dict[str, object]


class BuildControls(_Section):
    """`controls.json` of a build: its controls, without any system's evaluation."""

    format: Literal["bystander-controls"] = "bystander-controls"
    format_version: Literal[1] = 1
    dataset: str
    build: str
    content_digest: str
    """Of the build that was measured: another one in the manifest means that these figures are out of date."""
    rows: int
    seed: int
    confidence: float
    pack: str | None
    """Whose grades the judges gave; null, as the digest, where none was asked."""
    pack_digest: str | None
    engines: tuple[RaterInfo, ...]
    controls: tuple[Control, ...]
    code_version: str
    packages: dict[str, str] = Field(default_factory=dict)


class Example(_Section):
    """A row shown with its audio: one that the system answered worst."""

    system: str
    judge: str
    test: TestName
    id: str
    rsf: int | None
    oh: int | None


class Projection(_Section):
    """Two-dimensional picture of a system's embeddings (t-SNE), a point a row."""

    system: str
    perplexity: float
    ids: tuple[str, ...]
    groups: tuple[Literal["one_speaker", "hard_negative", "two_speakers"], ...]
    x: tuple[float, ...]
    y: tuple[float, ...]


class BenchInfo(_Section):
    """The bench that was answered."""

    uri: str
    dataset: str
    build: str
    content_digest: str
    rows: dict[TestName, int]
    linked_pairs: int


class EvaluationScores(_Section):
    """Everything that was measured."""

    format: Literal["bystander-evaluation"] = "bystander-evaluation"
    format_version: Literal[1] = 1
    name: str
    seed: int
    confidence: float
    bench: BenchInfo
    pack: str
    pack_digest: str
    systems: tuple[RaterInfo, ...]
    judges: tuple[RaterInfo, ...]
    scores: tuple[SystemScore, ...]
    comparisons: tuple[Comparison, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    controls: tuple[Control, ...] = ()
    examples: tuple[Example, ...] = ()
    projections: tuple[Projection, ...] = ()
    code_version: str
    packages: dict[str, str] = Field(default_factory=dict)
