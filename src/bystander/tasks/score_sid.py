"""From cases and stops to the figures of `scores.json`: by language, category and source, and over all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bystander.schemas.evaluation_scores import Estimate
from bystander.schemas.sid import CATEGORIES
from bystander.schemas.sid_evaluation import AVERAGE, NOISE_SILENCE, WITHOUT_SPEECH, SidCase, Stops
from bystander.schemas.sid_evaluation_scores import (
    SidBreakdown,
    SidComputeTime,
    SidGroupScore,
    SidPaperWeights,
    SidPredictionInfo,
    SidSystemScore,
)
from bystander.tasks.metrics.bootstrap import LEVEL, RESAMPLES, MeanEstimate
from bystander.tasks.metrics.published_sid import load_published_sid
from bystander.tasks.metrics.sid_scores import TOLERANCE_S, CaseScores, score_cases
from bystander.tasks.metrics.sid_summary import summarise_cases, weight_by_cases

OTHERS = "others"
_MOST_SOURCES = 20
_FIRST_LANGUAGES = ("en", "zh")


@dataclass(frozen=True, slots=True)
class ScoreSettings:
    """How cases are scored; see `metrics.sid_scores` and `metrics.sid_summary`."""

    tolerance_s: float | None = TOLERANCE_S
    penalty_cap_s: float | None = None
    resample_by: Literal["recording", "case"] = "recording"
    seed: int = 0
    level: float = LEVEL
    n_resamples: int = RESAMPLES


def score_stops(cases: Sequence[SidCase], stops: Stops, settings: ScoreSettings) -> CaseScores:
    """Return what became of each case; `stops` are by the cases' ids, one for each."""
    return score_cases(
        [case.duration_s for case in cases],
        [case.break_time_s for case in cases],
        [stops[case.id] for case in cases],
        tolerance_s=settings.tolerance_s,
        without_speech=[case.category in WITHOUT_SPEECH for case in cases],
        penalty_cap_s=settings.penalty_cap_s,
    )


def score_system(
    system: str,
    cases: Sequence[SidCase],
    stops: Stops,
    settings: ScoreSettings,
    predictions: SidPredictionInfo | None = None,
    compute: SidComputeTime | None = None,
) -> SidSystemScore:
    """Return all figures of a system.

    Args:
        system: its name.
        cases: of the bench.
        stops: by the cases' ids, one for each.
        settings: how they are scored.
        predictions: what its file had and lacked, where it comes from one.
        compute: what its computing took, where it was run.
    """
    scores = score_stops(cases, stops, settings)
    clusters = list_clusters(cases, settings.resample_by)

    def summarise(name: str, at: Sequence[int]) -> SidGroupScore:
        return _summarise(name, scores.select(np.array(at, np.int64)), [clusters[i] for i in at], settings)

    def split(key: str, get: Callable[[SidCase], str], order: Sequence[str]) -> SidBreakdown:
        members = _group(cases, get)
        names = [*(name for name in order if name in members), *sorted(set(members) - set(order))]
        return SidBreakdown(key=key, groups=tuple(summarise(name, members[name]) for name in names))

    groups = split("group", lambda case: case.group, _FIRST_LANGUAGES).groups
    groups = tuple(sorted(groups, key=lambda one: one.group == NOISE_SILENCE))
    sources = _name_sources(cases)
    pairs = [f"{language} {category}" for language in _FIRST_LANGUAGES for category in CATEGORIES]
    breakdowns = [
        split("category", lambda case: case.category, CATEGORIES),
        split("language and category", _name_pair, pairs),
        split("source", lambda case: sources[case.source], [name for name in sources.values() if name != OTHERS]),
    ]
    return SidSystemScore(
        system=system,
        groups=(*groups, summarise(AVERAGE, range(len(cases)))),
        breakdowns=tuple(one for one in breakdowns if len(one.groups) > 1 or one.key == "category"),
        latencies_s=tuple(sorted(float(latency) for latency in scores.latency_s[scores.timed])),
        paper_weights=_weight_as_the_paper(groups),
        predictions=predictions,
        compute=compute,
    )


def list_clusters(cases: Sequence[SidCase], resample_by: Literal["recording", "case"]) -> list[Hashable]:
    """Return what is drawn in the bootstrap for each case: its recording where that is known and asked for."""
    if resample_by == "case":
        return [("case", case.id) for case in cases]
    return [("recording", case.recording_id) if case.recording_id else ("case", case.id) for case in cases]


def _name_pair(case: SidCase) -> str:
    return case.category if case.category in WITHOUT_SPEECH else f"{case.group} {case.category}"


def _group(cases: Sequence[SidCase], get: Callable[[SidCase], str]) -> dict[str, list[int]]:
    members: dict[str, list[int]] = {}
    for at, case in enumerate(cases):
        members.setdefault(get(case), []).append(at)
    return members


def _name_sources(cases: Sequence[SidCase]) -> dict[str, str]:
    """Return what each source counts under: itself, largest first, or OTHERS beyond the largest twenty."""
    counts = Counter(case.source for case in cases)
    ranked = sorted(counts, key=lambda source: (-counts[source], source))
    kept = len(ranked) if len(ranked) <= _MOST_SOURCES else _MOST_SOURCES - 1
    return {source: source if rank < kept else OTHERS for rank, source in enumerate(ranked)}


def _summarise(name: str, scores: CaseScores, clusters: Sequence[Hashable], settings: ScoreSettings) -> SidGroupScore:
    found = summarise_cases(
        scores,
        seed=settings.seed,
        clusters=clusters,
        level=settings.level,
        n_resamples=settings.n_resamples,
    )
    return SidGroupScore(
        group=name,
        cases=found.cases,
        counts={str(outcome): count for outcome, count in found.counts.items()},
        early=found.early,
        exact=found.exact,
        after_end=found.after_end,
        fir=_estimate(found.fir),
        fir_nonbreak=_estimate(found.fir_nonbreak),
        early_rate=_estimate(found.early_rate),
        miss_rate=_estimate(found.miss_rate),
        irl=_estimate(found.irl),
        irl_with_exact=_estimate(found.irl_with_exact),
        apt=_estimate(found.apt),
        apt_capped=None if settings.penalty_cap_s is None else _estimate(found.apt_capped),
        apt_parts={str(part): seconds for part, seconds in found.apt_parts.items()},
    )


def _estimate(mean: MeanEstimate) -> Estimate:
    return Estimate(mean=mean.mean, low=mean.low, high=mean.high, n=mean.n)


def _weight_as_the_paper(groups: Sequence[SidGroupScore]) -> SidPaperWeights | None:
    found: Mapping[str, SidGroupScore] = {one.group: one for one in groups}
    names = (*_FIRST_LANGUAGES, NOISE_SILENCE)
    if any(name not in found for name in names):
        return None
    weights: Mapping[str, int] = {str(name): n for name, n in load_published_sid().cases.items()}
    fir, apt = (
        {name: mean for name in names if (mean := getattr(found[name], metric).mean) is not None}
        for metric in ("fir", "apt")
    )
    return SidPaperWeights(fir=weight_by_cases(fir, weights), apt=weight_by_cases(apt, weights))
