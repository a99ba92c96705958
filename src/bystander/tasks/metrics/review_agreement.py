"""How far reviewers agree on the rows that several of them judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from bystander.schemas.identity import derive_seed
from bystander.schemas.review import ReviewReason, RowReview
from bystander.tasks.metrics.bootstrap import LEVEL, RESAMPLES, estimate_mean
from bystander.tasks.metrics.label_agreement import measure_label_agreement
from bystander.tasks.metrics.rating_agreement import measure_alpha

Reviews = Mapping[str, Mapping[str, RowReview]]
"""By annotator and row; a review without a verdict says nothing."""


@dataclass(frozen=True, slots=True)
class AgreementFigure:
    """A figure over `n` rows with its interval [low, high]; None with the `reason` where it is undefined."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """Two annotators, over the rows that both judged: share of equal verdicts, and Cohen's kappa."""

    first: str
    second: str
    raw: AgreementFigure
    kappa: AgreementFigure


@dataclass(frozen=True, slots=True)
class ReasonAgreement:
    """How often a reason was given: rows where anyone gave it, of those the ones that two or more people judged, and
    of those the ones where all who judged gave it."""

    reason: ReviewReason
    rows: int
    judged_by_several: int
    unanimous: int


@dataclass(frozen=True, slots=True)
class ReviewAgreement:
    """All figures of a review.

    Attributes:
        judged: rows that each annotator gave a verdict on.
        raw: share of equal verdicts among all pairs of verdicts on a row, averaged over rows.
        alpha: Krippendorff's, on the nominal scale of accept and reject.
        alpha_with_reasons: the same where rejections for different reasons count as different.
        disagreements: rows whose verdicts are not all the same, in the order of their ids.
    """

    judged: dict[str, int]
    raw: AgreementFigure
    alpha: AgreementFigure
    alpha_with_reasons: AgreementFigure
    pairs: tuple[PairAgreement, ...]
    reasons: tuple[ReasonAgreement, ...]
    disagreements: tuple[str, ...]


def measure_review_agreement(
    reviews: Reviews, *, seed: int, level: float = LEVEL, n_resamples: int = RESAMPLES
) -> ReviewAgreement:
    """Return how far annotators agree; intervals are the percentile bootstrap's over rows.

    Args:
        reviews: what each annotator said.
        seed: the intervals hang on it, and on nothing else but the verdicts.
        level: probability that an interval covers, in (0, 1).
        n_resamples: number of bootstrap samples.
    """
    names = sorted(reviews)
    by_row = _collect_verdicts(reviews, names)
    several = {row: said for row, said in by_row.items() if len(said) > 1}
    verdicts = [[str(review.verdict) for review in said.values()] for said in several.values()]
    labels = [[f"{review.verdict} {review.reason}" for review in said.values()] for said in several.values()]
    shares = [_share_equal(said) for said in verdicts]
    raw = estimate_mean(shares, seed=derive_seed(seed, "raw", "review_agreement"), level=level, n_resamples=n_resamples)
    return ReviewAgreement(
        judged={name: sum(name in said for said in by_row.values()) for name in names},
        raw=AgreementFigure(raw.mean, raw.low, raw.high, raw.n, None if raw.n else _NOTHING),
        alpha=_estimate_alpha(verdicts, derive_seed(seed, "alpha", "review_agreement"), level, n_resamples),
        alpha_with_reasons=_estimate_alpha(
            labels, derive_seed(seed, "alpha_with_reasons", "review_agreement"), level, n_resamples
        ),
        pairs=tuple(_compare(by_row, *pair, seed, level, n_resamples) for pair in combinations(names, 2)),
        reasons=tuple(_count_reasons(by_row)),
        disagreements=find_disagreements(reviews),
    )


def find_disagreements(reviews: Reviews) -> tuple[str, ...]:
    """Return the rows that were given different verdicts, in the order of their ids."""
    by_row = _collect_verdicts(reviews, sorted(reviews))
    return tuple(row for row, said in by_row.items() if len({review.verdict for review in said.values()}) > 1)


_NOTHING = "no row was judged by two annotators"


def _collect_verdicts(reviews: Reviews, names: Sequence[str]) -> dict[str, dict[str, RowReview]]:
    by_row: dict[str, dict[str, RowReview]] = {}
    for name in names:
        for row, review in reviews[name].items():
            if review.verdict is not None:
                by_row.setdefault(row, {})[name] = review
    return dict(sorted(by_row.items()))


def _share_equal(labels: Sequence[str]) -> float:
    pairs = len(labels) * (len(labels) - 1)
    return sum(count * (count - 1) for count in Counter(labels).values()) / pairs


def _compare(
    by_row: Mapping[str, Mapping[str, RowReview]], first: str, second: str, seed: int, level: float, n_resamples: int
) -> PairAgreement:
    both = {row: said for row, said in by_row.items() if first in said and second in said}
    one, other = ([str(said[name].verdict) for said in both.values()] for name in (first, second))
    pair_seed = derive_seed(seed, f"{first} {second}", "review_agreement")
    equal = [float(a == b) for a, b in zip(one, other, strict=True)]
    raw = estimate_mean(equal, seed=pair_seed, level=level, n_resamples=n_resamples)
    kappa = measure_label_agreement(
        one, other, seed=pair_seed, clusters=list(both), level=level, n_resamples=n_resamples
    )
    return PairAgreement(
        first,
        second,
        AgreementFigure(raw.mean, raw.low, raw.high, raw.n, None if raw.n else "they judged no row in common"),
        AgreementFigure(
            kappa.kappa,
            kappa.low,
            kappa.high,
            len(both),
            kappa.reason if both else "they judged no row in common",
        ),
    )


def _estimate_alpha(labels: Sequence[Sequence[str]], seed: int, level: float, n_resamples: int) -> AgreementFigure:
    """Return nominal alpha; `labels` are those of each row that has two or more."""
    levels = sorted({label for row in labels for label in row})
    codes = {label: float(at) for at, label in enumerate(levels)}
    flat = [(codes[label], at) for at, row in enumerate(labels) for label in row]
    measured = measure_alpha([value for value, _ in flat], [at for _, at in flat], "nominal")
    if measured.alpha is None:
        return AgreementFigure(None, None, None, measured.items, measured.reason if labels else _NOTHING)
    # Rows of equal counts are one stratum of the draw, so that neither their order nor their names change the interval.
    patterns = Counter(tuple(row.count(label) for label in levels) for row in labels)
    counts = np.array(sorted(patterns), np.float64)
    numbers = np.array([patterns[pattern] for pattern in sorted(patterns)], np.float64)
    drawn = np.random.Generator(np.random.PCG64(seed)).multinomial(
        len(labels), numbers / numbers.sum(), size=n_resamples
    )
    resampled = _resample_alpha(drawn.astype(np.float64), counts)
    defined = resampled[np.isfinite(resampled)]
    tail = (1 - level) / 2
    low, high = np.quantile(defined, [tail, 1 - tail]) if len(defined) else (measured.alpha, measured.alpha)
    return AgreementFigure(measured.alpha, float(low), float(high), measured.items)


def _resample_alpha(drawn: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return nominal alpha of each resample; NaN where all its labels are the same.

    Args:
        drawn: how often each pattern was drawn, shape (resamples, patterns).
        counts: how often each label is given in a row of a pattern, shape (patterns, labels).
    """
    sizes = counts.sum(axis=1)
    unequal = (counts * (sizes[:, None] - counts)).sum(axis=1) / (sizes - 1)
    totals, ratings = drawn @ counts, drawn @ sizes
    expected = (ratings**2 - (totals**2).sum(axis=1)) / (ratings - 1)
    certain = expected <= 1e-12
    alpha: NDArray[np.float64] = np.where(certain, np.nan, 1 - (drawn @ unequal) / np.where(certain, 1, expected))
    return alpha


def _count_reasons(by_row: Mapping[str, Mapping[str, RowReview]]) -> list[ReasonAgreement]:
    given: Counter[ReviewReason] = Counter()
    judged: Counter[ReviewReason] = Counter()
    unanimous: Counter[ReviewReason] = Counter()
    for said in by_row.values():
        reasons = [review.reason if review.verdict == "reject" else None for review in said.values()]
        for reason in {reason for reason in reasons if reason is not None}:
            given[reason] += 1
            if len(reasons) > 1:
                judged[reason] += 1
                unanimous[reason] += all(other == reason for other in reasons)
    return [
        ReasonAgreement(reason, given[reason], judged[reason], unanimous[reason])
        for reason in sorted(given, key=lambda reason: (-given[reason], reason))
    ]
