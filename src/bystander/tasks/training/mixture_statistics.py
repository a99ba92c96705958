"""Means, intervals and paired tests over the seeds and rows of an experiment with mixtures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bystander.schemas.evaluation_scores import Estimate
from bystander.schemas.identity import derive_seed
from bystander.schemas.mixture_results import MixtureComparison, MixtureMetric, SeedEstimate
from bystander.schemas.train_tpi_config import MixtureName, RowPart, TwoInputs
from bystander.tasks.metrics.bootstrap import estimate_mean
from bystander.tasks.metrics.system_comparison import compare_binary
from bystander.tasks.training.two_input_rows import TwoInputRow
from bystander.tasks.training.two_input_scores import BenchAnswers

METRIC_PARTS: Mapping[MixtureMetric, RowPart] = {
    "false_interruption": "hard_negative",
    "recognised": "two_speaker",
    "class_accuracy": "two_speaker",
    "dyadic_interruption": "dyadic",
}
"""Rows that a metric is a share of."""


@dataclass(frozen=True, slots=True)
class SeedAnswers:
    """The verdicts of one mixture's models on the same rows, seed by seed."""

    mixture: MixtureName
    inputs: TwoInputs
    answers: tuple[BenchAnswers, ...]

    def read(
        self, metric: MixtureMetric, rows: Sequence[TwoInputRow]
    ) -> tuple[list[TwoInputRow], npt.NDArray[np.bool_]]:
        """Return the metric's rows, and whether each counts, shape (seeds, rows)."""
        chosen = [place for place, row in enumerate(rows) if row.part == METRIC_PARTS[metric]]
        verdicts = [
            answers.class_right if metric == "class_accuracy" else answers.recognised for answers in self.answers
        ]
        return [rows[place] for place in chosen], np.stack(verdicts)[:, chosen]


def estimate_over_seeds(values: Sequence[float], confidence: float) -> Estimate:
    """Return the mean of seeds' figures with Student's t interval; without one for a single seed. Not cut to [0, 1]."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return Estimate(mean=mean, low=None, high=None, n=len(values))
    from scipy import stats

    half = (
        float(stats.t.ppf((1 + confidence) / 2, len(values) - 1)) * float(np.std(values, ddof=1)) / len(values) ** 0.5
    )
    return Estimate(mean=mean, low=mean - half, high=mean + half, n=len(values))


def estimate_share(
    seeds: SeedAnswers, metric: MixtureMetric, rows: Sequence[TwoInputRow], confidence: float, seed: int
) -> SeedEstimate | None:
    """Return a metric of a mixture with its two intervals; None where the bench has no row of it."""
    chosen, counts = seeds.read(metric, rows)
    if not chosen:
        return None
    own = derive_seed(seed, f"{seeds.mixture}/{seeds.inputs}/{metric}", "mixture_rows")
    return estimate_both(counts.astype(np.float64), [row.group for row in chosen], confidence, own)


def estimate_both(
    values: npt.NDArray[np.float64], clusters: Sequence[str], confidence: float, seed: int
) -> SeedEstimate:
    """Return the mean of values, shape (seeds, items), over seeds and over items, of which whole clusters are drawn."""
    found = estimate_mean(values.mean(0).tolist(), seed=seed, clusters=clusters, level=confidence)
    return SeedEstimate(
        over_seeds=estimate_over_seeds(values.mean(1).tolist(), confidence),
        over_rows=Estimate(mean=found.mean, low=found.low, high=found.high, n=found.n),
    )


def compare_shares(
    first: SeedAnswers, second: SeedAnswers, metric: MixtureMetric, rows: Sequence[TwoInputRow]
) -> list[MixtureComparison]:
    """Return two paired, two-sided tests of a metric: by seed, and by row. None where the bench has no row of it.

    By seed: Student's paired t-test on the shares of models with the same seed; undefined (p null) for one seed, or
    where all differences are the same but not 0. By row: McNemar on what most seeds say of a row; of an even number of
    seeds, half of them count as most.
    """
    chosen, ours = first.read(metric, rows)
    _, theirs = second.read(metric, rows)
    if not chosen:
        return []
    differences = ours.mean(1) - theirs.mean(1)
    statistic, p = test_differences(differences)
    by_row = compare_binary(_vote(chosen, ours), _vote(chosen, theirs))
    names = {"first": first.mixture, "second": second.mixture, "inputs": first.inputs, "metric": metric}
    return [
        MixtureComparison(
            **names,
            paired_by="seed",
            method="paired t-test",
            statistic=statistic,
            p=p,
            difference=float(differences.mean()),
            n=len(differences),
        ),
        MixtureComparison(
            **names,
            paired_by="row",
            method=by_row.test,
            statistic=by_row.statistic,
            p=by_row.p,
            difference=by_row.mean_difference,
            n=by_row.n,
        ),
    ]


def test_differences(differences: npt.NDArray[np.float64]) -> tuple[float | None, float | None]:
    """Return t and p of Student's test that the mean difference is 0; both None where it is undefined."""
    if np.ptp(differences) <= 1e-12:
        return (0.0, 1.0) if abs(differences[0]) <= 1e-12 else (None, None)
    from scipy import stats

    result = stats.ttest_1samp(differences, 0.0)
    return float(result.statistic), float(result.pvalue)


def _vote(rows: Sequence[TwoInputRow], counts: npt.NDArray[np.bool_]) -> dict[str, float]:
    most = counts.mean(0) >= 0.5
    return {row.id: float(vote) for row, vote in zip(rows, most, strict=True)}
