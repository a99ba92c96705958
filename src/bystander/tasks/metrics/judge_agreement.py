"""How far two judges, or a judge and people, agree: Pearson's correlation and Cohen's kappa."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bystander.tasks.metrics.input_checks import require_finite
from bystander.tasks.metrics.score_definitions import ScoreDefinition


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A coefficient in [-1, 1], or None and the reason why it is undefined; `p` where a test belongs to it."""

    value: float | None
    p: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """Agreement over the `n` rows that both scored.

    Attributes:
        n: rows scored by both.
        n_first_only: rows that only the first scored (the second's verdict is missing or could not be read).
        n_second_only: the reverse.
        same_share: share of rows with equal scores, in [0, 1]; None without rows.
        pearson: Pearson's r with its two-sided p.
        kappa: Cohen's kappa: unweighted for a binary score, with quadratic weights for an ordinal one.
    """

    n: int
    n_first_only: int
    n_second_only: int
    same_share: float | None
    pearson: Coefficient
    kappa: Coefficient


def measure_agreement(
    first: Mapping[str, float], second: Mapping[str, float], definition: ScoreDefinition
) -> JudgeAgreement:
    """Return the agreement of two sets of scores by row id, over the rows in both.

    People's ratings may be means and then fall between whole numbers: Pearson's r takes them; kappa does not, and says
    so.

    Raises:
        InputError: a score is NaN or infinite.
    """
    ids = sorted(first.keys() & second.keys())
    one, other = [float(first[row_id]) for row_id in ids], [float(second[row_id]) for row_id in ids]
    require_finite(one, "scores of the first judge")
    require_finite(other, "scores of the second judge")
    return JudgeAgreement(
        n=len(ids),
        n_first_only=len(first) - len(ids),
        n_second_only=len(second) - len(ids),
        same_share=sum(a == b for a, b in zip(one, other, strict=True)) / len(ids) if ids else None,
        pearson=correlate_scores(one, other),
        kappa=_measure_kappa(one, other, definition),
    )


def correlate_scores(first: Sequence[float], second: Sequence[float]) -> Coefficient:
    """Return Pearson's r and its two-sided p; None with fewer than two rows or where a side never varies.

    Two rows always give r = 1 or -1; their p is 1.
    """
    if len(first) < 2:
        return Coefficient(None, reason=f"{len(first)} shared rows; a correlation needs at least 2")
    for name, scores in (("first", first), ("second", second)):
        if _is_constant(scores):
            return Coefficient(None, reason=f"the {name} gives every row the score {scores[0]:g}")
    from scipy import stats

    result = stats.pearsonr(first, second)
    return Coefficient(float(result.statistic), float(result.pvalue))


def _is_constant(scores: Sequence[float]) -> bool:
    values = np.asarray(scores, np.float64)
    # Below this spread, rounding decides the correlation (scipy warns at the same bound).
    return bool(np.linalg.norm(values - values.mean()) <= 1e-13 * abs(values.mean()))


def _measure_kappa(first: Sequence[float], second: Sequence[float], definition: ScoreDefinition) -> Coefficient:
    """Return kappa = 1 - (observed / expected disagreement) (Cohen 1960; weights of (i - j)^2: Cohen 1968)."""
    if not first:
        return Coefficient(None, reason="0 shared rows; kappa needs at least 1")
    odd = [score for score in (*first, *second) if not definition.accepts(score)]
    if odd:
        scale = f"whole numbers from {definition.lowest:g} to {definition.highest:g}"
        return Coefficient(None, reason=f"kappa needs {scale}; {odd[0]:g} is none")
    if len({*first, *second}) == 1:
        return Coefficient(
            None, reason=f"both give every row the score {first[0]:g}, so agreement by chance is certain"
        )
    from sklearn.metrics import cohen_kappa_score

    labels = list(range(int(definition.lowest), int(definition.highest) + 1))
    weights = None if len(labels) == 2 else "quadratic"
    return Coefficient(
        float(cohen_kappa_score([int(s) for s in first], [int(s) for s in second], labels=labels, weights=weights))
    )
