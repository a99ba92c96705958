"""From answers and verdicts to the figures of `scores.json`: means, breakdowns, comparisons, agreements, examples."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bystander.schemas.evaluate_config import EvaluateTpiConfig
from bystander.schemas.evaluation import METRICS, MetricName, TestName
from bystander.schemas.evaluation_scores import (
    Agreement,
    Breakdown,
    Comparison,
    Estimate,
    Example,
    MetricScore,
    PairScore,
    SystemScore,
    TestScore,
)
from bystander.tasks.metrics.bootstrap import MeanEstimate
from bystander.tasks.metrics.judge_agreement import measure_agreement
from bystander.tasks.metrics.reply_similarity import estimate_similarity
from bystander.tasks.metrics.response_scores import OVERLAP, ScoreSummary, resolve_scores, summarise_scores
from bystander.tasks.metrics.score_definitions import SCORES_BY_KEY, ScoreDefinition
from bystander.tasks.metrics.system_comparison import compare_binary, compare_ordinal
from bystander.tasks.stages.verdicts import NOT_ANSWERED, is_answered

_BREAKDOWNS: Mapping[TestName, tuple[str, ...]] = {
    "tpi_test": ("scenario", "category", "label", "timing", OVERLAP),
    "janus_test": ("scenario", "category", "timing"),  # one speaker: one label, no overlap
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's score under one rubric; without a score, `fault` says why."""

    score: int | None
    fault: str | None


Verdicts = Mapping[MetricName, Mapping[str, Verdict]]
"""By metric: row id to verdict. Every row of the bench has one."""
Ratings = Mapping[tuple[str, MetricName], Mapping[str, float]]
"""By system and metric: row id to what people gave."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What an evaluation brought, before any figure is made of it.

    Attributes:
        rows: the bench's rows, as `storage.bench_rows.Bench.rows`.
        pairs: linked twins: ids of the two-speaker row and the one-speaker row.
        answers: system to row id to answer; null or white space where there is none.
        verdicts: by system and judge.
        ratings: by the raters' name.
    """

    rows: Sequence[Mapping[str, Any]]
    pairs: Sequence[tuple[str, str]]
    answers: Mapping[str, Mapping[str, str | None]]
    verdicts: Mapping[tuple[str, str], Verdicts]
    ratings: Mapping[str, Ratings] = field(default_factory=dict)

    def rows_of(self, test: TestName) -> list[Mapping[str, Any]]:
        """Return the rows of a test."""
        return [row for row in self.rows if row["test"] == test]

    def scored(self, system: str, judge: str, test: TestName, metric: MetricName) -> dict[str, float | None]:
        """Return row id to score, null where there is no verdict; rows without an answer are left out."""
        verdicts = self.verdicts[system, judge][metric]
        found = ((row["id"], verdicts[row["id"]]) for row in self.rows_of(test))
        return {row_id: verdict.score for row_id, verdict in found if verdict.fault != NOT_ANSWERED}


def get_definition(test: TestName, metric: MetricName) -> ScoreDefinition:
    """Return scale and direction of a metric on a test."""
    return SCORES_BY_KEY[f"{test}.{metric}"]


def score_systems(findings: Findings, config: EvaluateTpiConfig) -> tuple[SystemScore, ...]:
    """Return all figures of each system under each judge, systems first.

    Missing answers count as the worst score. Verdicts that could not be read are counted and left out of means.
    """
    pairs = {system: _score_pairs(findings, system, config) for system in findings.answers}
    return tuple(
        SystemScore(
            system=system,
            judge=judge,
            tests=tuple(
                _score_test(findings, system, judge, test, config) for test in config.tests if findings.rows_of(test)
            ),
            pairs=pairs[system],
        )
        for system, judge in findings.verdicts
    )


def compare_systems(findings: Findings, config: EvaluateTpiConfig) -> tuple[Comparison, ...]:
    """Return the test of every two systems under every judge, over the rows on which both have a score."""
    return tuple(
        comparison
        for judge in config.judges
        for first, second in itertools.combinations(findings.answers, 2)
        for test in config.tests
        for metric in METRICS
        if (comparison := _compare(findings, first, second, judge, test, metric)) is not None
    )


def measure_agreements(findings: Findings, config: EvaluateTpiConfig) -> tuple[Agreement, ...]:
    """Return the agreement of every two judges, and of every judge with every file of ratings, on each system."""
    return tuple(
        _agree(first, second, one, other, system, test, metric)
        for system in findings.answers
        for test in config.tests
        for metric in METRICS
        for first, second, one, other in _list_raters(findings, config, system, test, metric)
    )


def find_worst_examples(findings: Findings, config: EvaluateTpiConfig) -> tuple[Example, ...]:
    """Return for each system, judge and test the rows that were answered worst, the worst first.

    Strategy comes before helpfulness; equals are ordered by id. Rows with the best score of both are no examples.
    """
    return tuple(
        Example(system=system, judge=judge, test=test, id=row_id, rsf=scores["rsf"], oh=scores["oh"])
        for system, judge in findings.verdicts
        for test in config.tests
        for row_id, scores in _rank_worst(findings, system, judge, test)[: config.worst_examples]
    )


def _score_test(findings: Findings, system: str, judge: str, test: TestName, config: EvaluateTpiConfig) -> TestScore:
    rows, keys = findings.rows_of(test), _BREAKDOWNS[test]
    reports = {
        metric: summarise_scores(
            rows,
            findings.scored(system, judge, test, metric),
            get_definition(test, metric),
            seed=config.seed,
            by=keys,
            missing="worst",
            unparsable="omit",
            level=config.confidence,
            n_resamples=config.resamples,
        )
        for metric in METRICS
    }
    return TestScore(
        test=test,
        rows=len(rows),
        metrics={
            metric: MetricScore(
                estimate=_estimate(report.overall),
                missing=report.overall.n_missing,
                unparsable=report.overall.n_unparsable,
            )
            for metric, report in reports.items()
        },
        breakdowns=tuple(
            Breakdown(
                key=key,
                values={
                    value: {metric: _estimate(report.groups[key][value]) for metric, report in reports.items()}
                    for value in reports["rsf"].groups[key]
                },
            )
            for key in keys
        ),
    )


def _score_pairs(findings: Findings, system: str, config: EvaluateTpiConfig) -> PairScore | None:
    """Return how alike the twins are answered; a pair with an answer missing counts as answered alike, the worst."""
    if not findings.pairs:
        return None
    answers = findings.answers[system]
    replies = [(answers[first] or "", answers[second] or "") for first, second in findings.pairs]
    means = estimate_similarity(
        [pair if all(map(is_answered, pair)) else ("", "") for pair in replies],
        seed=config.seed,
        level=config.confidence,
        n_resamples=config.resamples,
    )
    return PairScore(pairs=len(replies), bleu=_estimate(means.bleu), rouge_l=_estimate(means.rouge_l))


def _estimate(mean: ScoreSummary | MeanEstimate) -> Estimate:
    return Estimate(mean=mean.mean, low=mean.low, high=mean.high, n=mean.n)


def _compare(
    findings: Findings, first: str, second: str, judge: str, test: TestName, metric: MetricName
) -> Comparison | None:
    definition = get_definition(test, metric)
    scores = [
        {
            row.row_id: row.score
            for row in resolve_scores(
                findings.rows_of(test),
                findings.scored(system, judge, test, metric),
                definition,
                missing="worst",
                unparsable="omit",
            )
            if row.score is not None
        }
        for system in (first, second)
    ]
    shared = scores[0].keys() & scores[1].keys()
    if not shared:
        return None
    one, other = ({row_id: side[row_id] for row_id in shared} for side in scores)
    result = compare_binary(one, other) if metric == "rsf" else compare_ordinal(one, other)
    return Comparison(
        first=first,
        second=second,
        judge=judge,
        test=test,
        metric=metric,
        method=result.test,
        statistic=result.statistic,
        p=result.p,
        difference=result.mean_difference,
        effect_size=result.rank_biserial,
        n=result.n,
    )


def _list_raters(
    findings: Findings, config: EvaluateTpiConfig, system: str, test: TestName, metric: MetricName
) -> Iterator[tuple[str, str, Mapping[str, float], Mapping[str, float]]]:
    by_judge = {
        judge: {row: s for row, s in findings.scored(system, judge, test, metric).items() if s is not None}
        for judge in config.judges
    }
    for first, second in itertools.combinations(by_judge, 2):
        yield first, second, by_judge[first], by_judge[second]
    ids = {row["id"] for row in findings.rows_of(test)}
    for name, ratings in findings.ratings.items():
        rated = {row_id: score for row_id, score in ratings.get((system, metric), {}).items() if row_id in ids}
        if rated:
            for judge, scores in by_judge.items():
                yield judge, name, scores, rated


def _agree(
    first: str,
    second: str,
    one: Mapping[str, float],
    other: Mapping[str, float],
    system: str,
    test: TestName,
    metric: MetricName,
) -> Agreement:
    found = measure_agreement(one, other, get_definition(test, metric))
    reasons = {
        name: coefficient.reason
        for name, coefficient in (("Pearson", found.pearson), ("kappa", found.kappa))
        if coefficient.reason
    }
    return Agreement(
        first=first,
        second=second,
        system=system,
        test=test,
        metric=metric,
        n=found.n,
        pearson=found.pearson.value,
        p=found.pearson.p,
        kappa=found.kappa.value,
        undefined="; ".join(f"{name}: {reason}" for name, reason in reasons.items()) or None,
    )


def _rank_worst(
    findings: Findings, system: str, judge: str, test: TestName
) -> list[tuple[str, dict[MetricName, int | None]]]:
    definitions = {metric: get_definition(test, metric) for metric in METRICS}
    verdicts = findings.verdicts[system, judge]

    def measure_badness(metric: MetricName, verdict: Verdict) -> float:
        definition = definitions[metric]
        if verdict.fault == NOT_ANSWERED:
            return abs(definition.worst - definition.best) + 1
        return 0.0 if verdict.score is None else abs(verdict.score - definition.best)

    ranked = []
    for row in findings.rows_of(test):
        found = {metric: verdicts[metric][row["id"]] for metric in METRICS}
        badness = tuple(-measure_badness(metric, found[metric]) for metric in METRICS)
        if any(badness):
            ranked.append((badness, row["id"], {metric: verdict.score for metric, verdict in found.items()}))
    return [(row_id, scores) for _, row_id, scores in sorted(ranked, key=lambda item: item[:2])]
