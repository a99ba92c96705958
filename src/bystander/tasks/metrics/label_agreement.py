"""How far two labellings of the same rows agree: Cohen's kappa with an interval that keeps related rows together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bystander.tasks.metrics.bootstrap import LEVEL, RESAMPLES


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """Kappa in [-1, 1] with its interval [low, high], or None and the `reason` why it is undefined."""

    kappa: float | None
    low: float | None
    high: float | None
    reason: str | None = None


def measure_label_agreement(
    first: Sequence[str],
    second: Sequence[str],
    *,
    seed: int,
    clusters: Sequence[Hashable],
    level: float = LEVEL,
    n_resamples: int = RESAMPLES,
) -> LabelAgreement:
    """Return Cohen's unweighted kappa = (observed - expected) / (1 - expected agreement) (Cohen 1960).

    Its interval is the percentile bootstrap's (Efron and Tibshirani 1993, chapter 13) over whole clusters. Resamples in
    which kappa is undefined, since both give every row the same label, are left out.

    Args:
        first: labels of the rows by one labeller.
        second: those by the other, in the same order.
        seed: from `identity.derive_seed`.
        clusters: what each row belongs to; neither their names nor the order of rows change the result.
        level: probability that the interval covers, in (0, 1).
        n_resamples: number of bootstrap samples.
    """
    if not first:
        return LabelAgreement(None, None, None, "0 rows; kappa needs at least 1")
    if len({*first, *second}) == 1:
        return LabelAgreement(None, None, None, f"both label every row {first[0]}, so agreement by chance is certain")
    counts = _count_by_cluster(first, second, clusters)
    kappa = float(_compute_kappa(counts.sum(axis=0)[None])[0])
    rng = np.random.Generator(np.random.PCG64(seed))
    n = len(counts)
    drawn = rng.multinomial(n, np.full(n, 1 / n), size=n_resamples)
    resampled = _compute_kappa(np.tensordot(drawn, counts, axes=1))
    defined = resampled[np.isfinite(resampled)]
    tail = (1 - level) / 2
    low, high = np.quantile(defined, [tail, 1 - tail]) if len(defined) else (kappa, kappa)
    return LabelAgreement(kappa, float(low), float(high))


def measure_association(first: Sequence[str], second: Sequence[str]) -> float | None:
    """Return Cramér's V in [0, 1] between two labellings of the same rows, whose labels may have different names.

    0: one says nothing of the other; 1: it decides it. Without correction for bias, so that few rows of many labels are
    high by chance. None where either gives all rows one label (Cramér 1946, chapter 21).
    """
    if len({*first}) < 2 or len({*second}) < 2:
        return None
    from scipy.stats.contingency import association, crosstab

    return float(association(crosstab(list(first), list(second)).count, method="cramer"))


def _count_by_cluster(first: Sequence[str], second: Sequence[str], clusters: Sequence[Hashable]) -> NDArray[np.float64]:
    """Return each cluster's table of labels, shape (clusters, labels, labels), in an order that these alone decide."""
    places = {label: at for at, label in enumerate(sorted({*first, *second}))}
    tables: dict[Hashable, NDArray[np.float64]] = {}
    for one, other, cluster in zip(first, second, clusters, strict=True):
        table = tables.setdefault(cluster, np.zeros((len(places), len(places))))
        table[places[one], places[other]] += 1
    return np.array(sorted(tables.values(), key=lambda table: table.ravel().tolist()))


def _compute_kappa(tables: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the kappa of each table, shape (n, labels, labels); NaN where agreement by chance is certain."""
    totals = tables.sum(axis=(1, 2))
    observed = np.trace(tables, axis1=1, axis2=2) / totals
    expected = (tables.sum(axis=1) * tables.sum(axis=2)).sum(axis=1) / totals**2
    certain = expected >= 1 - 1e-12
    kappa: NDArray[np.float64] = np.where(certain, np.nan, (observed - expected) / np.where(certain, 1, 1 - expected))
    return kappa
