"""Made-up evaluations: one by hand for tables, one by the metric functions with rows, verdicts and audio for pages."""

from __future__ import annotations

from typing import Any

from bystander.schemas.evaluation_scores import (
    BenchInfo,
    Comparison,
    Estimate,
    EvaluationScores,
    MetricScore,
    PairScore,
    RaterInfo,
    SystemScore,
    TestScore,
)


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
