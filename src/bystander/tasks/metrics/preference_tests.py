"""Whether people prefer one of two things: the sign test, the same with raters as clusters, and tables of answers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from bystander.tasks.metrics.bootstrap import LEVEL

_EXACT_RATERS = 12
_FLIPS = 9_999
_CELLS_A_BATCH = 2_000_000


@dataclass(frozen=True, slots=True)
class Preference:
    """A first thing against a second; shares and p are None where nobody preferred either.

    Attributes:
        first, ties, second: numbers of answers.
        share: of those that prefer either, how many prefer the first.
        low, high: its exact interval (Clopper and Pearson 1934).
        p: two-sided exact binomial test of share 1/2; ties are left out, as in the sign test.
        p_by_rater: two-sided test that flips the sign of all that a rater said at once.
        raters: number of them.
    """

    first: int
    ties: int
    second: int
    share: float | None
    low: float | None
    high: float | None
    p: float | None
    p_by_rater: float | None
    raters: int


def weigh_preference(
    signs: Sequence[int], raters: Sequence[Hashable], *, seed: int, level: float = LEVEL
) -> Preference:
    """Return how often the first was preferred (1), neither (0) or the second (-1), and whether that can be chance.

    Answers of one rater are alike, so the exact test alone is too sure of itself. Under the hypothesis that neither is
    better, all answers of a rater could as well have been the other way round: p by rater is the share of such flips
    with at least the net preference seen, over all of them up to 12 raters, else over 9,999 at random and the one seen.
    Raters are taken in an order of their answers alone, so that their names change nothing.
    """
    from scipy import stats

    first, second = sum(sign > 0 for sign in signs), sum(sign < 0 for sign in signs)
    ties, n_raters = len(signs) - first - second, len(set(raters))
    if not first + second:
        return Preference(first, ties, second, None, None, None, None, None, n_raters)
    exact = stats.binomtest(first, first + second, 0.5)
    interval = exact.proportion_ci(level, "exact")
    net: dict[Hashable, int] = {}
    for sign, rater in zip(signs, raters, strict=True):
        net[rater] = net.get(rater, 0) + sign
    return Preference(
        first=first,
        ties=ties,
        second=second,
        share=first / (first + second),
        low=float(interval.low),
        high=float(interval.high),
        p=float(exact.pvalue),
        p_by_rater=_flip_raters(np.array(sorted(net.values())), seed),
        raters=n_raters,
    )


def _flip_raters(net: np.ndarray, seed: int) -> float:
    net = net[net != 0]
    seen = abs(int(net.sum()))
    if len(net) <= _EXACT_RATERS:
        bits = np.arange(2 ** len(net))[:, None] >> np.arange(len(net)) & 1
        sums = np.abs((1 - 2 * bits) @ net)
        return float(np.mean(sums >= seen))
    rng = np.random.Generator(np.random.PCG64(seed))
    reached, left = 0, _FLIPS
    while left:
        batch = min(left, max(1, _CELLS_A_BATCH // len(net)))
        reached += int(np.sum(np.abs((1 - 2 * rng.integers(0, 2, (batch, len(net)))) @ net) >= seen))
        left -= batch
    return (reached + 1) / (_FLIPS + 1)


def compare_tables(first: Sequence[int], second: Sequence[int]) -> float | None:
    """Return p of the chi-square test that two rows of counts have the same shares; None where it is undefined.

    Answers that nobody gave are left out. It takes all answers for independent.
    """
    from scipy import stats

    kept = [pair for pair in zip(first, second, strict=True) if sum(pair)]
    if len(kept) < 2 or not sum(first) or not sum(second):
        return None
    return float(stats.chi2_contingency(np.array(kept).T, correction=False).pvalue)
