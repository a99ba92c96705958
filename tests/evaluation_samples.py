"""Made-up evaluations: one by hand for tables, one by the metric functions with rows, verdicts and audio for pages."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from bystander.schemas.evaluation import BENCH_ROW, JUDGED, METRICS, TESTS, MetricName, TestName
from bystander.schemas.evaluation_scores import (
    Agreement,
    BenchInfo,
    Breakdown,
    Comparison,
    Control,
    Estimate,
    EvaluationScores,
    Example,
    MetricScore,
    PairScore,
    RaterInfo,
    SystemScore,
    TestScore,
)
from bystander.schemas.taxonomy import load_taxonomy
from bystander.storage.filesystem import Store
from bystander.tasks.metrics.bootstrap import estimate_mean
from bystander.tasks.metrics.embedding_projection import name_speaker_group, project_embeddings
from bystander.tasks.metrics.judge_agreement import measure_agreement
from bystander.tasks.metrics.response_scores import ScoreSummary, summarise_scores
from bystander.tasks.metrics.score_definitions import SCORES_BY_KEY
from bystander.tasks.metrics.separability import measure_separability
from bystander.tasks.metrics.system_comparison import compare_binary, compare_ordinal
from final_rows import make_row


def estimate(mean: float | None, width: float = 0.05, n: int = 40) -> Estimate:
    if mean is None:
        return Estimate(mean=None, low=None, high=None, n=0)
    return Estimate(mean=mean, low=mean - width, high=mean + width, n=n)


def make_system(
    system: str,
    judge: str,
    means: tuple[float | None, float | None, float | None, float | None],
    pairs: tuple[float | None, float | None] | None = (0.25, 0.5),
    missing: int = 0,
    unparsable: int = 0,
) -> SystemScore:
    """`means` are RSF and OH of TPI-Test, then of Janus-Test."""

    def make_test(test: Any, rsf: float | None, oh: float | None) -> TestScore:
        lost = missing if test == "tpi_test" else 0
        return TestScore(
            test=test,
            rows=40,
            metrics={
                "rsf": MetricScore(estimate=estimate(rsf), missing=lost, unparsable=unparsable),
                "oh": MetricScore(estimate=estimate(oh), missing=lost),
            },
        )

    return SystemScore(
        system=system,
        judge=judge,
        tests=(make_test("tpi_test", *means[:2]), make_test("janus_test", *means[2:])),
        pairs=pairs and PairScore(pairs=16, bleu=estimate(pairs[0], n=16), rouge_l=estimate(pairs[1], n=16)),
    )


def make_comparison(first: str, second: str, p: float, **changes: Any) -> Comparison:
    values: dict[str, Any] = {
        "first": first,
        "second": second,
        "judge": "large",
        "test": "tpi_test",
        "metric": "rsf",
        "method": "McNemar, exact binomial",
        "statistic": 3.0,
        "p": p,
        "difference": 0.25,
        "effect_size": 0.5,
        "n": 40,
    }
    return Comparison(**(values | changes))


def make_scores(*scores: SystemScore, **changes: Any) -> EvaluationScores:
    systems = dict.fromkeys(score.system for score in scores)
    judges = dict.fromkeys(score.judge for score in scores)
    values: dict[str, Any] = {
        "name": "first-look",
        "seed": 7,
        "confidence": 0.95,
        "bench": BenchInfo(
            uri="store/tpi-bench/b1",
            dataset="tpi-bench",
            build="b1",
            content_digest="c" * 64,
            rows={"tpi_test": 40, "janus_test": 40},
            linked_pairs=16,
        ),
        "pack": "reference",
        "pack_digest": "d" * 64,
        "systems": tuple(RaterInfo(name=name, identity={"model": f"{name}-model"}) for name in systems),
        "judges": tuple(RaterInfo(name=name, identity={"model": f"{name}-model"}) for name in judges),
        "scores": scores,
        "code_version": "0.1.0",
    }
    return EvaluationScores(**(values | changes))


SKILLS = {"replies-of-the-pack": 0.9, "concatenated-transcript": 0.45, "ignores-the-second": 0.6}
"""Made-up systems: probability of following the strategy."""
JUDGES = {"large": 0.02, "small": 0.15}
"""Made-up judges: probability of a slip."""
BREAKDOWNS = ("scenario", "category", "label", "timing", "overlap")


@dataclass(frozen=True)
class SampleEvaluation:
    """All that an evaluation's folder and bench hold."""

    scores: EvaluationScores
    bench: pa.Table
    judged: dict[tuple[str, str], pa.Table]

    def write_verdicts(self, store: Store) -> None:
        import pyarrow.parquet as pq

        for (system, judge), table in self.judged.items():
            with store.open_write(f"verdicts/{system}.{judge}.parquet") as sink:
                pq.write_table(table, sink)


def make_bench(rows_a_scenario: int) -> list[dict[str, Any]]:
    """Two-speaker rows over the built-in scenarios, each with its one-speaker twin; twins share few clips."""
    rows: list[dict[str, Any]] = []
    clips = {(i, hard): make_row(i, hard) for i in range(6) for hard in (False, True)}
    for index in range(rows_a_scenario * 26):
        scenario = load_taxonomy().scenarios[index % 26]
        for hard in (False, True):
            row = dict(clips[index % 6, hard])
            row |= {
                "id": f"{'hn' if hard else 'row'}-{index:04d}",
                "twin_id": f"{'row' if hard else 'hn'}-{index:04d}",
                "test": "janus_test" if hard else "tpi_test",
                "scenario": scenario.key,
                "category": scenario.category,
                "primary_text": scenario.examples[0].primary,
                "third_party_text": scenario.examples[0].third_party,
            }
            row |= {} if hard else {"label": "ignorable" if index % 5 < 2 else "actionable"}
            row |= {} if hard else {"overlap_s": 0.35 + 0.05 * (index % 7)}
            rows.append(row)
    return rows


def make_evaluation(rows_a_scenario: int = 2, resamples: int = 200) -> SampleEvaluation:
    """Three systems under two judges, with every section filled, by the metric functions that evaluations use."""
    rng = np.random.default_rng(11)
    bench = make_bench(rows_a_scenario)
    truth = {system: {row["id"]: bool(rng.random() < skill) for row in bench} for system, skill in SKILLS.items()}
    verdicts = {
        (system, judge): _judge(rng, bench, truth[system], slip) for judge, slip in JUDGES.items() for system in SKILLS
    }
    tests = {test: [row for row in bench if row["test"] == test] for test in TESTS}
    embeddings = rng.normal(size=(len(bench), 12)) + np.array(
        [[4.0 * (r["n_speakers"] == 2)] + [0.0] * 11 for r in bench]
    )
    controls = []
    for name, hears, shift in (("transcript_classifier", False, 0.1), ("speaker_verifier", True, 3.0)):
        found = measure_separability(
            [float(rng.normal() + shift * (row["n_speakers"] == 2)) for row in bench],
            [row["n_speakers"] == 2 for row in bench],
            clusters=[row["id"][-4:] for row in bench],
            seed=1,
            n_resamples=resamples,
        )
        controls.append(
            Control(
                name=name,
                hears=hears,
                auc=found.auc,
                low=found.low,
                high=found.high,
                pairs=found.n_clusters,
                method="cosine of the segments' voices" if hears else "logistic regression, 5 folds by pair",
            )
        )
    pairs = {system: _pair(rng, skill, len(bench) // 2, resamples) for system, skill in SKILLS.items()}
    scores = make_scores(
        *(
            SystemScore(
                system=system,
                judge=judge,
                tests=tuple(_score(test, tests[test], verdicts[system, judge], resamples) for test in TESTS),
                pairs=pairs[system],
            )
            for system in SKILLS
            for judge in JUDGES
        ),
        comparisons=tuple(_compare(tests, verdicts)),
        agreements=tuple(_agree(tests, verdicts)),
        controls=tuple(controls),
        examples=tuple(_find_worst(bench, verdicts)),
        projections=(
            project_embeddings(
                embeddings,
                [row["id"] for row in bench],
                [name_speaker_group(row) for row in bench],
                system="replies-of-the-pack",
                seed=1,
                perplexity=15,
            ),
        ),
        bench=BenchInfo(
            uri="store/tpi-bench/b1",
            dataset="tpi-bench",
            build="b1",
            content_digest="c" * 64,
            rows={test: len(rows) for test, rows in tests.items()},
            linked_pairs=len(bench) // 2,
        ),
    )
    judged = {key: _make_judged(bench, found) for key, found in verdicts.items()}
    table = pa.Table.from_pylist([{name: row[name] for name in BENCH_ROW.names} for row in bench], schema=BENCH_ROW)
    return SampleEvaluation(scores, table, judged)


_Verdicts = dict[MetricName, dict[str, float]]


def _judge(rng: np.random.Generator, bench: list[dict[str, Any]], truth: dict[str, bool], slip: float) -> _Verdicts:
    rsf, oh = {}, {}
    for row in bench:
        good = truth[row["id"]] != bool(rng.random() < slip)
        rsf[row["id"]] = float(good if row["test"] == "tpi_test" else not good)
        oh[row["id"]] = float(np.clip((4 if good else 2) + rng.integers(-1, 2), 1, 5))
    return {"rsf": rsf, "oh": oh}


def _of(verdicts: dict[str, float], rows: list[dict[str, Any]]) -> dict[str, float]:
    return {row["id"]: verdicts[row["id"]] for row in rows}


def _show(summary: ScoreSummary) -> Estimate:
    return Estimate(mean=summary.mean, low=summary.low, high=summary.high, n=summary.n)


def _score(test: TestName, rows: list[dict[str, Any]], verdicts: _Verdicts, resamples: int) -> TestScore:
    reports = {
        metric: summarise_scores(
            rows,
            _of(verdicts[metric], rows),
            SCORES_BY_KEY[f"{test}.{metric}"],
            seed=1,
            by=BREAKDOWNS,
            n_resamples=resamples,
        )
        for metric in METRICS
    }
    return TestScore(
        test=test,
        rows=len(rows),
        metrics={metric: MetricScore(estimate=_show(report.overall)) for metric, report in reports.items()},
        breakdowns=tuple(
            Breakdown(
                key=key,
                values={
                    value: {metric: _show(reports[metric].groups[key][value]) for metric in METRICS}
                    for value in reports["rsf"].groups[key]
                },
            )
            for key in BREAKDOWNS
        ),
    )


def _pair(rng: np.random.Generator, skill: float, pairs: int, resamples: int) -> PairScore:
    def draw(low: float) -> Estimate:
        found = estimate_mean(
            [float(x) for x in rng.uniform(low, 1, pairs) * (1.1 - skill)], seed=1, n_resamples=resamples
        )
        return Estimate(mean=found.mean, low=found.low, high=found.high, n=found.n)

    return PairScore(pairs=pairs, bleu=draw(0), rouge_l=draw(0.4))


def _compare(
    tests: dict[TestName, list[dict[str, Any]]], verdicts: dict[tuple[str, str], _Verdicts]
) -> list[Comparison]:
    comparisons = []
    for judge in JUDGES:
        for (test, rows), metric in ((one, metric) for one in tests.items() for metric in METRICS):
            for first, second in combinations(SKILLS, 2):
                sides = [_of(verdicts[system, judge][metric], rows) for system in (first, second)]
                found = (compare_binary if metric == "rsf" else compare_ordinal)(*sides)
                comparisons.append(
                    Comparison(
                        first=first,
                        second=second,
                        judge=judge,
                        test=test,
                        metric=metric,
                        method=found.test,
                        statistic=found.statistic,
                        p=found.p,
                        difference=found.mean_difference,
                        effect_size=found.rank_biserial,
                        n=found.n,
                    )
                )
    return comparisons


def _agree(tests: dict[TestName, list[dict[str, Any]]], verdicts: dict[tuple[str, str], _Verdicts]) -> list[Agreement]:
    agreements = []
    for system in SKILLS:
        for (test, rows), metric in ((one, metric) for one in tests.items() for metric in METRICS):
            sides = [_of(verdicts[system, judge][metric], rows) for judge in JUDGES]
            found = measure_agreement(*sides, SCORES_BY_KEY[f"{test}.{metric}"])
            agreements.append(
                Agreement(
                    first="large",
                    second="small",
                    system=system,
                    test=test,
                    metric=metric,
                    n=found.n,
                    pearson=found.pearson.value,
                    p=found.pearson.p,
                    kappa=found.kappa.value,
                    undefined=found.pearson.reason or found.kappa.reason,
                )
            )
    return agreements


def _find_worst(bench: list[dict[str, Any]], verdicts: dict[tuple[str, str], _Verdicts]) -> list[Example]:
    examples = []
    for system in SKILLS:
        for judge in JUDGES:
            found = verdicts[system, judge]
            worst = sorted(bench, key=lambda row: (found["oh"][row["id"]], row["id"]))[:2]
            examples += [
                Example(
                    system=system,
                    judge=judge,
                    test=row["test"],
                    id=row["id"],
                    rsf=int(found["rsf"][row["id"]]),
                    oh=int(found["oh"][row["id"]]),
                )
                for row in worst
            ]
    return examples


def _make_judged(bench: list[dict[str, Any]], verdicts: _Verdicts) -> pa.Table:
    def make_verdict(metric: MetricName, row_id: str) -> dict[str, Any]:
        score = int(verdicts[metric][row_id])
        rationale = f"The reply to {row_id} earns {score} for {metric}: it does not say whose wish it follows."
        return {"score": score, "rationale": rationale, "raw_output": rationale, "attempts": 1, "fault": None}

    return pa.Table.from_pylist(
        [
            {name: row[name] for name in BENCH_ROW.names}
            | {"answer": f"Sure. {row['reply']}", "answer_fault": None}
            | {metric: make_verdict(metric, row["id"]) for metric in METRICS}
            for row in bench
        ],
        schema=JUDGED,
    )
