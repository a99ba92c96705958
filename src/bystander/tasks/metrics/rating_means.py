"""Means of people's ratings with intervals: as if all ratings were independent, and clustered by rater and item."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bystander.tasks.metrics.bootstrap import LEVEL
from bystander.tasks.metrics.input_checks import require_finite


@dataclass(frozen=True, slots=True)
class RatingMean:
    """A mean over `n` ratings; what is undefined is None, never NaN.

    Attributes:
        mean: of the ratings.
        sd: their sample standard deviation; None below two ratings.
        low, high: Student's t interval over ratings, as if they were independent; None below two ratings.
        clustered_low, clustered_high: the interval that allows for ratings of one rater, and of one item, being alike;
            None below two raters or two items.
        n, raters, items: what the mean is over.
    """

    mean: float | None
    sd: float | None
    low: float | None
    high: float | None
    clustered_low: float | None
    clustered_high: float | None
    n: int
    raters: int
    items: int


def average_ratings(
    scores: Sequence[float],
    raters: Sequence[Hashable],
    items: Sequence[Hashable],
    level: float = LEVEL,
    scale: tuple[float, float] = (-math.inf, math.inf),
) -> RatingMean:
    """Return the mean of scores, each of a rater on an item, with both intervals.

    The plain one is mean ± t(n - 1) x sd / sqrt(n), what papers usually report. The clustered one has the two-way
    variance V(rater) + V(item) - V(rating) (Cameron, Gelbach and Miller 2011), each V the sum of squared sums of
    residuals by cluster over n^2, times G / (G - 1) for G clusters; where that is less than one of the one-way
    variances, the greater of these. Its t has as many degrees of freedom as the fewer of both have clusters, less 1.

    Both are cut at the ends of the scale.

    Not the bootstrap of raters times items (Owen 2007): where each item has few ratings, it counts the variance of the
    single ratings three times.

    Raises:
        InputError: a score is NaN or infinite.
    """
    require_finite(scores, "ratings")
    n, n_raters, n_items = len(scores), len(set(raters)), len(set(items))
    if not n:
        return RatingMean(None, None, None, None, None, None, 0, 0, 0)
    values = np.asarray(scores, np.float64)
    mean = math.fsum(scores) / n
    if n < 2:
        return RatingMean(mean, None, None, None, None, None, n, n_raters, n_items)
    from scipy import stats

    residuals = values - mean
    sd = math.sqrt(float(residuals @ residuals) / (n - 1))
    half = float(stats.t.ppf((1 + level) / 2, n - 1)) * sd / math.sqrt(n)
    clustered = None
    if n_raters > 1 and n_items > 1:
        by_rater = _sum_squares(residuals, raters)
        by_item = _sum_squares(residuals, items)
        single = float(residuals @ residuals) * n / (n - 1)
        variance = max(by_rater, by_item, by_rater + by_item - single) / n**2
        free = min(n_raters, n_items) - 1
        clustered = float(stats.t.ppf((1 + level) / 2, free)) * math.sqrt(variance)
    return RatingMean(
        mean=mean,
        sd=sd,
        low=max(mean - half, scale[0]),
        high=min(mean + half, scale[1]),
        clustered_low=None if clustered is None else max(mean - clustered, scale[0]),
        clustered_high=None if clustered is None else min(mean + clustered, scale[1]),
        n=n,
        raters=n_raters,
        items=n_items,
    )


def _sum_squares(residuals: NDArray[np.float64], clusters: Sequence[Hashable]) -> float:
    """Return the sum over clusters of the square of their residuals' sum, with the correction for few clusters."""
    place = {cluster: at for at, cluster in enumerate(dict.fromkeys(clusters))}
    sums = np.bincount([place[cluster] for cluster in clusters], residuals, len(place))
    return float(sums @ sums) * len(place) / (len(place) - 1)
