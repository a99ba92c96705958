"""Confidence intervals of means by the bootstrap."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bystander.tasks.metrics.input_checks import require_finite

LEVEL = 0.95
RESAMPLES = 2000
_CELLS_A_BATCH = 2_000_000  # bounds memory: resamples x clusters held at once


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean over `n` values and its confidence interval [low, high]; all three are None if n is 0, never NaN.

    An interval without width (one cluster, or clusters of equal means) says that the bootstrap sees no spread, not
    that the mean is certain: look at `n_clusters`.
    """

    mean: float | None
    low: float | None
    high: float | None
    n: int
    n_clusters: int


def estimate_mean(
    values: Sequence[float],
    *,
    seed: int,
    clusters: Sequence[Hashable] | None = None,
    level: float = LEVEL,
    n_resamples: int = RESAMPLES,
) -> MeanEstimate:
    """Return the mean of `values` with its percentile bootstrap interval (Efron and Tibshirani 1993, chapter 13).

    Whole clusters are drawn with replacement, as many as there are; a resample's mean is the sum of its values over
    their number (a ratio, as clusters may differ in size). Neither the order of the values nor the clusters' names
    change the result. Percentile, not BCa: scores are discrete and means near a bound are common, where BCa's
    acceleration can be undefined, and its jackknife takes time in the square of the rows.

    Args:
        values: finite numbers.
        seed: from `identity.derive_seed`; the same seed and values give the same interval.
        clusters: what each value belongs to (say its twin pair), as long as `values`; None: each stands alone.
        level: probability that the interval covers, in (0, 1).
        n_resamples: number of bootstrap samples.

    Raises:
        InputError: a value is NaN or infinite.
    """
    require_finite(values, "values")
    if not values:
        return MeanEstimate(None, None, None, 0, 0)
    sums, counts = _sum_clusters(values, range(len(values)) if clusters is None else clusters)
    mean = math.fsum(values) / len(values)
    # Rounding must not widen the interval of equal values, so near-equal cluster means count as equal.
    if np.ptp(sums / counts) <= 1e-12 * max(1.0, abs(mean)):
        return MeanEstimate(mean, mean, mean, len(values), len(sums))
    from scipy import stats

    interval = stats.bootstrap(
        (sums, counts),
        _divide_sums,
        paired=True,
        vectorized=True,
        n_resamples=n_resamples,
        batch=max(1, _CELLS_A_BATCH // len(sums)),
        confidence_level=level,
        method="percentile",
        rng=np.random.Generator(np.random.PCG64(seed)),
    ).confidence_interval
    return MeanEstimate(mean, float(interval.low), float(interval.high), len(values), len(sums))


def _sum_clusters(
    values: Sequence[float], clusters: Sequence[Hashable]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each cluster's sum and number of values, in an order that depends on these alone."""
    members: defaultdict[Hashable, list[float]] = defaultdict(list)
    for value, cluster in zip(values, clusters, strict=True):
        members[cluster].append(value)
    pairs = sorted((math.fsum(group), float(len(group))) for group in members.values())
    return np.array([total for total, _ in pairs]), np.array([count for _, count in pairs])


def _divide_sums(sums: NDArray[np.float64], counts: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    means: NDArray[np.float64] = np.sum(sums, axis=axis) / np.sum(counts, axis=axis)
    return means
