"""Means over cases of interruption detection: FIR, IRL and APT with intervals, and what APT is made of."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bystander.schemas.errors import InputError
from bystander.tasks.metrics.bootstrap import LEVEL, RESAMPLES, MeanEstimate, estimate_mean
from bystander.tasks.metrics.sid_scores import OUTCOMES, CaseScores, Outcome

AptPart = Literal["late", "early", "false_alarm", "missed"]
APT_PARTS: tuple[AptPart, ...] = ("late", "early", "false_alarm", "missed")
"""What brings penalty: latency of true positives, stops before a break, stops where there is none, breaks missed."""


@dataclass(frozen=True, slots=True)
class SidSummary:
    """Scores over some cases. Means are None where they have no case to be taken over.

    Attributes:
        cases: number of cases, N.
        counts: cases of each outcome.
        early: false positives that stopped before the break of a clip that has one.
        exact: true positives within the tolerance of the break.
        after_end: stops when the clip was over.
        fir: false positives / N, as formula 1 and the tables of the SID paper have it: early stops count.
        fir_nonbreak: false positives among the clips without a break / these clips, as the README of SID-Bench has it.
        early_rate: early stops / clips with a break.
        miss_rate: false negatives / clips with a break.
        irl: mean latency in seconds of the true positives that are not exact, pooled over cases. Where all are exact it
            is 0 over those, as for FSMN-VAD in the paper's Table II.
        irl_with_exact: the same with the exact ones as 0.
        apt: mean penalty in seconds over all N.
        apt_capped: the same with the cap on false alarms of clips without speech.
        apt_parts: seconds of APT that each of APT_PARTS brings: sum of its penalties / N. They add up to APT.
    """

    cases: int
    counts: Mapping[Outcome, int]
    early: int
    exact: int
    after_end: int
    fir: MeanEstimate
    fir_nonbreak: MeanEstimate
    early_rate: MeanEstimate
    miss_rate: MeanEstimate
    irl: MeanEstimate
    irl_with_exact: MeanEstimate
    apt: MeanEstimate
    apt_capped: MeanEstimate
    apt_parts: Mapping[AptPart, float]


def summarise_cases(
    scores: CaseScores,
    *,
    seed: int,
    clusters: Sequence[Hashable] | None = None,
    level: float = LEVEL,
    n_resamples: int = RESAMPLES,
) -> SidSummary:
    """Return the scores over cases, with percentile bootstrap intervals.

    Means over all cases weight every case alike, so the mean over several groups is the mean of the groups' means
    weighted by their numbers of cases, as the Average columns of the paper's Table II are. IRL is pooled over true
    positives.

    Args:
        scores: of the cases.
        seed: from `identity.derive_seed`.
        clusters: what each case belongs to, say its recording, which is drawn whole; None: each case stands alone.
        level: probability that an interval covers, in (0, 1).
        n_resamples: bootstrap samples.

    Raises:
        InputError: the clusters are not as many as the cases.
    """
    if clusters is not None and len(clusters) != len(scores):
        raise InputError(f"{len(scores)} cases, {len(clusters)} clusters: give one a case")
    false, hit = scores.is_outcome("FP"), scores.is_outcome("TP")
    everywhere = np.ones(len(scores), bool)
    timed = scores.timed if scores.timed.any() else hit

    def estimate(values: np.ndarray, among: np.ndarray) -> MeanEstimate:
        at = [int(position) for position in np.flatnonzero(among)]
        return estimate_mean(
            [float(values[i]) for i in at],
            seed=seed,
            clusters=None if clusters is None else [clusters[i] for i in at],
            level=level,
            n_resamples=n_resamples,
        )

    return SidSummary(
        cases=len(scores),
        counts={outcome: int(scores.is_outcome(outcome).sum()) for outcome in OUTCOMES},
        early=int(scores.early.sum()),
        exact=int((scores.exact & hit).sum()),
        after_end=int(scores.after_end.sum()),
        fir=estimate(false, everywhere),
        fir_nonbreak=estimate(false, ~scores.has_break),
        early_rate=estimate(scores.early, scores.has_break),
        miss_rate=estimate(scores.is_outcome("FN"), scores.has_break),
        irl=estimate(scores.latency_s, timed),
        irl_with_exact=estimate(scores.latency_s, hit),
        apt=estimate(scores.penalty_s, everywhere),
        apt_capped=estimate(scores.capped_penalty_s, everywhere),
        apt_parts={
            part: math.fsum(scores.penalty_s[among]) / max(1, len(scores))
            for part, among in zip(
                APT_PARTS, (hit, scores.early, false & ~scores.early, scores.is_outcome("FN")), strict=True
            )
        },
    )


def weight_by_cases(means: Mapping[str, float], cases: Mapping[str, float]) -> float:
    """Return the mean of groups' means, weighted by numbers of cases.

    Raises:
        InputError: a group has no number of cases, or there is none at all.
    """
    lost = [name for name in means if name not in cases]
    total = math.fsum(cases[name] for name in means if name in cases)
    if lost or total <= 0:
        raise InputError(f"no number of cases for {', '.join(lost) or 'any group'}; give one a group, above 0")
    return math.fsum(mean * cases[name] for name, mean in means.items()) / total
