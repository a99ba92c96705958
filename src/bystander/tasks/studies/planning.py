"""How wide an interval a study of some size will have."""

from __future__ import annotations

import math


def expect_half_width(
    sd: float, raters: int, per_rater: int, correlation: float = 0.0, confidence: float = 0.95
) -> float:
    """Return the expected half width of the interval of a mean over raters x per_rater ratings.

    It is Student's t times sd / sqrt(n), n being the ratings over the design effect 1 + (per_rater - 1) x correlation
    (Kish 1965, section 5.4): ratings of one rater resemble each other, so they count for less.

    Args:
        sd: standard deviation of one rating.
        raters: number of raters.
        per_rater: ratings of each.
        correlation: intraclass correlation of one rater's ratings, in [0, 1).
        confidence: probability that the interval covers, in (0, 1).
    """
    from scipy import stats

    ratings = raters * per_rater
    if ratings < 2:
        return math.inf
    counted = ratings / (1 + (per_rater - 1) * correlation)
    free = ratings - 1 if correlation == 0 else max(raters - 1, 1)
    return float(stats.t.ppf((1 + confidence) / 2, free) * sd / math.sqrt(counted))


def count_raters(
    half_width: float, sd: float, per_rater: int, correlation: float = 0.0, confidence: float = 0.95
) -> int:
    """Return the fewest raters whose interval is expected to be no wider than `half_width` to each side."""
    low, high = 1, 2
    while expect_half_width(sd, high, per_rater, correlation, confidence) > half_width:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if expect_half_width(sd, middle, per_rater, correlation, confidence) > half_width:
            low = middle
        else:
            high = middle
    return high
