"""How well a score tells two classes apart: the area under the ROC curve, for controls that hear or only read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bystander.tasks.metrics.bootstrap import LEVEL, RESAMPLES
from bystander.tasks.metrics.input_checks import require_finite


@dataclass(frozen=True, slots=True)
class Separability:
    """An AUC in [0, 1] and its confidence interval; all None, with a reason, where a class has no row.

    0.5 is chance, 1 tells them apart always with the positive class higher, 0 always with it lower.
    """

    auc: float | None
    low: float | None
    high: float | None
    n_positive: int
    n_negative: int
    n_clusters: int
    reason: str | None = None


def measure_separability(
    scores: Sequence[float],
    positive: Sequence[bool],
    *,
    seed: int,
    clusters: Sequence[Hashable] | None = None,
    level: float = LEVEL,
    n_resamples: int = RESAMPLES,
) -> Separability:
    """Return the probability that a positive row scores higher than a negative one, ties counting half.

    This is Mann and Whitney's U over the number of pairs, which equals the area under the ROC curve (Hanley and McNeil
    1982). The interval is the percentile bootstrap's, drawing whole clusters, and drawing apart among clusters of
    positives, of negatives and of both, so that no resample lacks a class. The order of rows does not matter.

    Args:
        scores: one finite number a row.
        positive: whether each row is of the positive class; as long as `scores`.
        seed: from `identity.derive_seed`.
        clusters: what each row belongs to (its twin pair), as long as `scores`; None: each stands alone.
        level: probability that the interval covers, in (0, 1).
        n_resamples: number of bootstrap samples.

    Raises:
        InputError: a score is NaN or infinite.
    """
    require_finite(scores, "scores")
    rows = _group_rows(scores, positive, range(len(scores)) if clusters is None else clusters)
    n_positive = sum(bool(flag) for flag in positive)
    n_negative = len(scores) - n_positive
    if not n_positive or not n_negative:
        missing = "positive" if not n_positive else "negative"
        reason = f"no row is of the {missing} class"
        return Separability(None, None, None, n_positive, n_negative, len(rows), reason)
    values = np.array([score for cluster in rows for score, _ in cluster], np.float64)
    flags = np.array([flag for cluster in rows for _, flag in cluster], np.bool_)
    owners = np.repeat(np.arange(len(rows)), [len(cluster) for cluster in rows])
    _, ranks = np.unique(values, return_inverse=True)
    auc = _measure_auc(ranks, flags, np.ones(len(values)))
    strata = _find_strata(rows)
    rng = np.random.Generator(np.random.PCG64(seed))
    resampled = np.empty(n_resamples)
    for number in range(n_resamples):
        draws = np.concatenate([stratum[rng.integers(len(stratum), size=len(stratum))] for stratum in strata])
        resampled[number] = _measure_auc(ranks, flags, np.bincount(draws, minlength=len(rows))[owners])
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return Separability(auc, float(low), float(high), n_positive, n_negative, len(rows))


def _group_rows(
    scores: Sequence[float], positive: Sequence[bool], clusters: Sequence[Hashable]
) -> list[list[tuple[float, bool]]]:
    """Return the rows of each cluster, in an order that depends on scores and classes alone."""
    members: defaultdict[Hashable, list[tuple[float, bool]]] = defaultdict(list)
    for score, flag, cluster in zip(scores, positive, clusters, strict=True):
        members[cluster].append((float(score), bool(flag)))
    return sorted(sorted(group) for group in members.values())


def _find_strata(rows: Sequence[Sequence[tuple[float, bool]]]) -> list[NDArray[np.int64]]:
    """Return the clusters' numbers by which classes they hold: both, positive, negative; empty strata are left out."""
    strata: defaultdict[tuple[bool, ...], list[int]] = defaultdict(list)
    for number, cluster in enumerate(rows):
        strata[tuple(sorted({flag for _, flag in cluster}))].append(number)
    return [np.array(strata[key], np.int64) for key in sorted(strata)]


def _measure_auc(ranks: NDArray[np.int64], flags: NDArray[np.bool_], weights: NDArray[np.number]) -> float:
    """Return the AUC of rows that count `weights` times each; `ranks` number the distinct scores upwards from 0."""
    positives = np.bincount(ranks, weights=weights * flags)
    negatives = np.bincount(ranks, weights=weights * ~flags)
    below = np.cumsum(negatives) - negatives
    return float(np.sum(positives * (below + negatives / 2)) / (np.sum(positives) * np.sum(negatives)))
