"""What an experiment with mixtures found: `results.json` of a small model trained on each mixture, seed by seed.

It asks the question of the TPI paper (section 5, Table 2): does a model that learns from two-speaker rows alone take
the words of an interruption for one, whoever says them, and do hard negatives end that?
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from bystander.schemas.evaluation_scores import BenchInfo, Estimate, Projection
from bystander.schemas.train_tpi_config import MixtureName, RowPart, TwoInputs

RESULTS_NAME = "results.json"

MixtureMetric = Literal["false_interruption", "recognised", "class_accuracy", "dyadic_interruption"]
"""Of the one-speaker rows of Janus-Test, the share taken for an interruption; of the two-speaker rows, the share taken
for one, and the share whose class is right too; of requests by one speaker, which nobody would take for an
interruption by their words, the share taken for one."""


SwapContrast = Literal["hard_negative", "dyadic"]
"""Whose sound stands for one speaker's where inputs are swapped."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PaperFigure(_Section):
    """What the TPI paper measured on a model of seven billion weights, judged by a language model (Table 2)."""

    tpi_rsf: float
    """Strategy followed on TPI-Test, higher is better."""
    janus_rsf: float
    """Interruption wrongly inferred on Janus-Test, lower is better."""


PAPER_FIGURES: Mapping[MixtureName, PaperFigure] = MappingProxyType(
    {
        "base": PaperFigure(tpi_rsf=0.82, janus_rsf=0.86),
        "va": PaperFigure(tpi_rsf=0.82, janus_rsf=0.67),
        "full": PaperFigure(tpi_rsf=0.83, janus_rsf=0.16),
    }
)
"""TPI-Base, TPI-VA and TPI-Full."""


class MixtureRows(_Section):
    """What a mixture held: rows trained on and rows held out, by where they come from."""

    mixture: MixtureName
    trained: dict[RowPart, int]
    held_out: dict[RowPart, int]


class CurvePoint(_Section):
    """A point of a training curve; null what was not measured at that step."""

    step: int
    loss: float | None = None
    held_out_loss: float | None = None


class MixtureRun(_Section):
    """One model: its mixture, what it could perceive, its seed, and its shares on the bench, in [0, 1]."""

    mixture: MixtureName
    inputs: TwoInputs
    seed: int
    steps: int
    false_interruption: float
    recognised: float
    class_accuracy: float
    dyadic_interruption: float | None = None
    """Null where no dyadic rows were there to be scored."""
    curve: tuple[CurvePoint, ...] = ()


class SeedEstimate(_Section):
    """A share, the mean over seeds, with two intervals that answer different questions.

    `over_seeds` (Student's t) is about another start of the same training on the same bench; `over_rows` (bootstrap,
    whole requests drawn) about another bench for the same models.
    """

    over_seeds: Estimate
    over_rows: Estimate


class MixtureSummary(_Section):
    """All seeds of a mixture under one choice of inputs."""

    mixture: MixtureName
    inputs: TwoInputs
    parameters: int = Field(ge=0)
    false_interruption: SeedEstimate
    recognised: SeedEstimate
    class_accuracy: SeedEstimate
    dyadic_interruption: SeedEstimate | None = None
    twin_auc: Estimate
    """How well the probability of an interruption tells the two twins of a pair apart, by seed: 0.5 is chance, which a
    model that only reads cannot leave. Null where the bench links none."""


class MixtureComparison(_Section):
    """Two mixtures, same inputs, paired: by seed (t-test of the seeds' shares), or by row (McNemar on what most seeds
    say)."""

    first: MixtureName
    second: MixtureName
    inputs: TwoInputs
    metric: MixtureMetric
    paired_by: Literal["seed", "row"]
    method: str
    statistic: float | None
    p: float | None
    difference: float
    """Mean of `first` minus that of `second`."""
    n: int


class SwapSummary(_Section):
    """What all seeds of a mixture lean on, by swapped inputs (interchange interventions).

    Each row's words are read as they are and as the request alone, under sounds of one speaker and of two. A model
    that only reads has a sound effect of 0, one that only hears a words effect of 0.
    """

    mixture: MixtureName
    inputs: TwoInputs
    contrast: SwapContrast
    swaps: int = Field(ge=1)
    words_effect: SeedEstimate
    """Change of the log-odds of an interruption from the request alone to all words, mean over both sounds."""
    sound_effect: SeedEstimate
    """Change from one speaker's sound to two speakers', mean over both texts."""
    words_share: Estimate
    """Size of the words effect over the sum of both sizes, by seed, in [0, 1]; does not hang on the logits' scale."""
    caused_by_words: SeedEstimate
    """Of one speaker's sound: share taken with all words less share taken with the request alone, in [-1, 1]. The
    false interruptions of a shortcut by words."""
    caused_by_sound: SeedEstimate
    """With all words: share taken with two speakers' sound less share with one speaker's."""
    taken: tuple[tuple[float, float], tuple[float, float]]
    """Shares taken for an interruption: first the request alone, then all words; in each one speaker's sound, then two
    speakers'."""


SwapMeasure = Literal["words_effect", "sound_effect", "words_share"]


class SwapComparison(_Section):
    """Two mixtures, same inputs: Student's paired t-test on the seeds' means; p null where it is undefined."""

    first: MixtureName
    second: MixtureName
    inputs: TwoInputs
    contrast: SwapContrast
    measure: SwapMeasure
    difference: float
    """Mean of `first` minus that of `second`."""
    statistic: float | None
    p: float | None
    n: int


class SplicedSummary(_Section):
    """The seam control: clips joined from two pieces of one voice and of two, with the same seam and the same words."""

    mixture: MixtureName
    inputs: TwoInputs
    pairs: int = Field(ge=1)
    one_voice: SeedEstimate
    """Share of the clips of one voice that are taken for an interruption: what any seam does."""
    two_voices: SeedEstimate
    ranked: SeedEstimate
    """Share of the pairs in which the clip of two voices scores higher, ties half: 0.5 is chance."""


class ConfoundScore(_Section):
    """A logistic regression on a few numbers that have nothing to do with who speaks, trained on the same mixture; or,
    as `words`, on which words there are.

    Where it does as well as the model, the model's figure may come from it. The one of words says whether words can
    mislead: in them is a shortcut where it takes one speaker's rows for interruptions, and their requests alone not.
    """

    name: Literal["duration", "level", "words"]
    mixture: MixtureName
    false_interruption: float
    recognised: float
    twin_auc: float | None
    request_interruption: float | None = None
    """Share taken of the bench's requests alone, which are no interruption; null where words have no say."""
    detail: str


class EmbeddingSeparation(_Section):
    """How well a linear probe, tried on rows that it has not seen, tells two groups of rows apart by the embeddings of
    a mixture's model: AUC, 0.5 is chance."""

    mixture: MixtureName
    first: Literal["one_speaker", "hard_negative", "two_speakers"]
    second: Literal["one_speaker", "hard_negative", "two_speakers"]
    auc: float | None
    low: float | None
    high: float | None
    n: int


class DataInfo(_Section):
    """A build that was trained on, or (`bench_dyadic`) whose dyadic rows were scored."""

    uri: str
    use: Literal["tpi", "dyadic", "bench_dyadic"]
    content_digest: str | None
    rows: int


class MixtureResults(_Section):
    """Everything that was measured."""

    format: Literal["bystander-mixtures"] = "bystander-mixtures"
    format_version: Literal[1] = 1
    name: str
    content_digest: str
    confidence: float
    seeds: tuple[int, ...]
    bench: BenchInfo
    data: tuple[DataInfo, ...]
    model: dict[str, object]
    """The model's configuration."""
    rows: tuple[MixtureRows, ...]
    runs: tuple[MixtureRun, ...]
    summaries: tuple[MixtureSummary, ...]
    comparisons: tuple[MixtureComparison, ...] = ()
    confounds: tuple[ConfoundScore, ...] = ()
    projections: tuple[Projection, ...] = ()
    """A picture a mixture (`system` is its name), of the first seed's model with both inputs: rows of the bench, and
    dyadic rows that no model was trained on."""
    separations: tuple[EmbeddingSeparation, ...] = ()
    swaps: tuple[SwapSummary, ...] = ()
    swap_comparisons: tuple[SwapComparison, ...] = ()
    spliced: tuple[SplicedSummary, ...] = ()
    notes: tuple[str, ...] = ()
    code_version: str
    packages: dict[str, str] = Field(default_factory=dict)
