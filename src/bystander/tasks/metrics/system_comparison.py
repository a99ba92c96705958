"""Whether two systems differ on the same rows: McNemar's test on binary scores, Wilcoxon's signed ranks on ordinal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bystander.schemas.errors import InputError
from bystander.tasks.metrics.input_checks import list_ids, require_finite

_EXACT_BELOW = 25  # discordant pairs
_EXACT_RANKS_UP_TO = 13  # differences: 2**13 signs are enumerated


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """The result of a paired, two-sided test of a first system against a second.

    Attributes:
        test: which variant of the test was made.
        statistic: its statistic.
        p: its p-value, in [0, 1].
        n: rows that both systems were scored on.
        n_used: rows that the test rests on: those where the systems differ.
        mean_difference: mean of first minus second over all `n` rows.
        rank_biserial: matched-pairs rank-biserial correlation, in [-1, 1] (positive: the first is higher); 0 where no
            row differs. For binary scores all differences share one rank, so it is (b - c) / (b + c).
    """

    test: str
    statistic: float
    p: float
    n: int
    n_used: int
    mean_difference: float
    rank_biserial: float


def compare_binary(first: Mapping[str, float], second: Mapping[str, float]) -> PairedComparison:
    """Compare scores of 0 and 1, by row id, with McNemar's test (McNemar 1947).

    b rows are 1 for the first system only, c for the second only. Below 25 discordant rows (b + c) the test is the
    exact binomial one, with statistic min(b, c); from 25 on it is the chi-square with Edwards' continuity correction,
    (|b - c| - 1)^2 / (b + c) with one degree of freedom, and 0 where b = c. Without discordant rows p is 1.

    Raises:
        InputError: there are no rows, the systems' ids differ, or a score is neither 0 nor 1.
    """
    differences = _pair_differences(first, second)
    for scores in (first, second):
        for row_id, score in scores.items():
            if score not in (0, 1):
                raise InputError(f"row {row_id}: score {score} is neither 0 nor 1, as McNemar's test needs")
    only_first, only_second = int(np.sum(differences > 0)), int(np.sum(differences < 0))
    discordant = only_first + only_second
    exact = discordant < _EXACT_BELOW
    from statsmodels.stats.contingency_tables import mcnemar

    # statsmodels corrects b = c too, away from the null hypothesis; no correction is due there.
    result = mcnemar([[0, only_first], [only_second, 0]], exact=exact, correction=only_first != only_second)
    return PairedComparison(
        test="McNemar, exact binomial" if exact else "McNemar, chi-square with continuity correction",
        statistic=float(result.statistic),
        p=float(result.pvalue),
        n=len(differences),
        n_used=discordant,
        mean_difference=(only_first - only_second) / len(differences),
        rank_biserial=(only_first - only_second) / discordant if discordant else 0.0,
    )


def compare_ordinal(first: Mapping[str, float], second: Mapping[str, float]) -> PairedComparison:
    """Compare ordinal scores, by row id, with Wilcoxon's signed-rank test (Wilcoxon 1945).

    Rows where the systems are equal are left out before ranking (scipy's `zero_method="wilcox"`); equal differences
    share their mean rank. The statistic is min(T+, T-), the smaller sum of ranks. Up to 13 differing rows p is exact
    (all signs enumerated); beyond, it is the normal approximation with correction for ties and none for continuity.
    Where no row differs, p is 1 and the statistic 0. The effect size is (T+ - T-) / (T+ + T-) (Kerby 2014).

    Raises:
        InputError: there are no rows, the systems' ids differ, or a score is not finite.
    """
    differences = _pair_differences(first, second)
    mean_difference = float(np.mean(differences))
    nonzero = differences[differences != 0]
    exact = len(nonzero) <= _EXACT_RANKS_UP_TO
    test = "Wilcoxon signed-rank, " + ("exact" if exact else "normal approximation corrected for ties")
    if not len(nonzero):
        return PairedComparison(test, 0.0, 1.0, len(differences), 0, mean_difference, 0.0)
    from scipy import stats

    if len(nonzero) == 1:
        method = "exact"  # scipy enumerates no signs of one value; its exact test, wrong with ties only, does as well
    else:
        method = stats.PermutationMethod(n_resamples=2**_EXACT_RANKS_UP_TO) if exact else "asymptotic"
    result = stats.wilcoxon(nonzero, zero_method="wilcox", correction=False, method=method)
    ranks = stats.rankdata(np.abs(nonzero))
    return PairedComparison(
        test=test,
        statistic=float(result.statistic),
        p=float(result.pvalue),
        n=len(differences),
        n_used=len(nonzero),
        mean_difference=mean_difference,
        rank_biserial=float(np.sum(ranks * np.sign(nonzero)) / np.sum(ranks)),
    )


def _pair_differences(first: Mapping[str, float], second: Mapping[str, float]) -> NDArray[np.float64]:
    lone = sorted(first.keys() ^ second.keys())
    if lone:
        raise InputError(f"only one of the two systems has a score for {list_ids(lone)}; score both on the same rows")
    if not first:
        raise InputError("two systems cannot be compared without a row that both are scored on")
    ids = sorted(first)
    require_finite([first[row_id] for row_id in ids], "scores of the first system")
    require_finite([second[row_id] for row_id in ids], "scores of the second system")
    return np.array([first[row_id] - second[row_id] for row_id in ids], np.float64)
