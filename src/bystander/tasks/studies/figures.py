"""The figures of a study: means, preferences and agreement, over the ratings that count."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence

from bystander.schemas.identity import derive_seed
from bystander.schemas.study import TIE, StudyManifest, StudyQuestion
from bystander.schemas.study_report import (
    BREAKDOWNS,
    AlphaFigure,
    PreferenceFigure,
    RatedQuestion,
    RatingFigure,
    TableComparison,
)
from bystander.tasks.metrics.preference_tests import compare_tables, weigh_preference
from bystander.tasks.metrics.rating_agreement import Scale, measure_alpha
from bystander.tasks.metrics.rating_means import average_ratings
from bystander.tasks.studies.ratings import Rating

_SIGNS = {"preferred": 1, "neutral": 0, "unpreferred": -1}


def average_questions(manifest: StudyManifest, ratings: Sequence[Rating], level: float) -> list[RatedQuestion]:
    """Return the means of every question whose options have scores, of each system by itself."""
    systems: Sequence[str | None] = manifest.systems or (None,)
    return [
        _average_question(question, system, [r for r in ratings if _is_about(r, question, system)], level)
        for question in manifest.wording.questions
        if question.scores
        for system in systems
    ]


def _is_about(rating: Rating, question: StudyQuestion, system: str | None) -> bool:
    return rating.question == question.name and rating.item.system == system


def _average_question(
    question: StudyQuestion, system: str | None, ratings: Sequence[Rating], level: float
) -> RatedQuestion:
    chosen = Counter(rating.value for rating in ratings)
    return RatedQuestion(
        question=question.name,
        system=system,
        figure=_average(question, ratings, level),
        counts={option.value: chosen[option.value] for option in question.options},
        breakdowns={
            key: {
                name: _average(question, [r for r in ratings if getattr(r.item, key) == name], level)
                for name in sorted({str(getattr(rating.item, key)) for rating in ratings})
            }
            for key in BREAKDOWNS
        },
    )


def _average(question: StudyQuestion, ratings: Sequence[Rating], level: float) -> RatingFigure:
    mean = average_ratings(
        [question.scores[rating.value] for rating in ratings],
        [rating.rater for rating in ratings],
        [rating.item.group for rating in ratings],
        level,
        (min(question.scores.values()), max(question.scores.values())),
    )
    return RatingFigure(**dataclasses.asdict(mean))


def weigh_preferences(manifest: StudyManifest, ratings: Sequence[Rating], level: float) -> list[PreferenceFigure]:
    """Return A/B preferences, or of each system by itself whether it satisfies; over all rows, then label by label."""
    found = []
    if manifest.settings.kind == "preference":
        first, second = manifest.systems
        signs = {first: 1, TIE: 0, second: -1}
        found += _weigh_parts(first, second, ratings, signs, manifest, level)
    elif manifest.settings.kind == "satisfaction":
        for system in manifest.systems:
            own = [rating for rating in ratings if rating.item.system == system]
            found += _weigh_parts(system, None, own, _SIGNS, manifest, level)
    return found


def _weigh_parts(
    first: str,
    second: str | None,
    ratings: Sequence[Rating],
    signs: dict[str, int],
    manifest: StudyManifest,
    level: float,
) -> list[PreferenceFigure]:
    labels = sorted({rating.item.label for rating in ratings})
    parts: Iterable[str | None] = (None, *labels) if len(labels) > 1 else (None,)
    figures = []
    for part in parts:
        of_part = [rating for rating in ratings if part in (None, rating.item.label)]
        result = weigh_preference(
            [signs[rating.value] for rating in of_part],
            [rating.rater for rating in of_part],
            seed=derive_seed(manifest.settings.seed, f"{first} {second} {part}", "study_preference"),
            level=level,
        )
        figures.append(
            PreferenceFigure(
                first=first,
                second=second,
                part=part,
                wins=result.first,
                ties=result.ties,
                losses=result.second,
                share=result.share,
                low=result.low,
                high=result.high,
                p=result.p,
                p_by_rater=result.p_by_rater,
                raters=result.raters,
            )
        )
    return figures


def compare_satisfaction(figures: Sequence[PreferenceFigure]) -> list[TableComparison]:
    """Return the chi-square comparisons of all pairs of systems whose satisfaction was asked."""
    alone = [figure for figure in figures if figure.second is None and figure.part is None]
    return [
        TableComparison(
            first=one.first,
            second=other.first,
            p=compare_tables((one.wins, one.ties, one.losses), (other.wins, other.ties, other.losses)),
        )
        for at, one in enumerate(alone)
        for other in alone[at + 1 :]
    ]


def measure_alphas(manifest: StudyManifest, ratings: Sequence[Rating]) -> list[AlphaFigure]:
    """Return alpha of each question, over items, whatever system they are of."""
    figures = []
    for question in manifest.wording.questions:
        own = [rating for rating in ratings if rating.question == question.name]
        values = sorted({rating.value for rating in own})
        numbers = question.scores or {value: float(at) for at, value in enumerate(values)}
        scale: Scale = "ordinal" if question.scale == "ordinal" else "nominal"
        alpha = measure_alpha([numbers[rating.value] for rating in own], [rating.item.id for rating in own], scale)
        figures.append(
            AlphaFigure(
                question=question.name,
                scale=scale,
                alpha=alpha.alpha,
                items=alpha.items,
                ratings=alpha.ratings,
                reason=alpha.reason,
            )
        )
    return figures
