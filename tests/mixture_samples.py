"""Results of an experiment with mixtures, made up."""

from __future__ import annotations

from typing import Any

import numpy as np

from bystander.schemas.evaluation_scores import BenchInfo, Estimate, Projection
from bystander.schemas.mixture_results import (
    ConfoundScore,
    CurvePoint,
    DataInfo,
    EmbeddingSeparation,
    MixtureComparison,
    MixtureResults,
    MixtureRows,
    MixtureRun,
    MixtureSummary,
    SeedEstimate,
    SplicedSummary,
    SwapSummary,
)
from bystander.schemas.train_tpi_config import MIXTURES, MixtureName, TwoInputs

INPUTS: tuple[TwoInputs, ...] = ("text_and_sound", "text", "sound")
FALSE: dict[MixtureName, float] = {"base": 0.95, "va": 0.8, "full": 0.1}
SEEDS = (0, 1, 2, 3, 4)


def make_estimate(mean: float, half: float = 0.03, n: int = 5) -> Estimate:
    return Estimate(mean=mean, low=max(mean - half, 0.0), high=min(mean + half, 1.0), n=n)


def make_effect(mean: float) -> SeedEstimate:
    return SeedEstimate(
        over_seeds=Estimate(mean=mean, low=mean - 0.3, high=mean + 0.3, n=5),
        over_rows=Estimate(mean=mean, low=mean - 0.4, high=mean + 0.4, n=320),
    )


def make_results(inputs: tuple[TwoInputs, ...] = INPUTS, **changes: Any) -> MixtureResults:
    """Return results with a summary and five runs of each mixture and choice of inputs."""
    rng = np.random.default_rng(3)
    found: dict[str, Any] = {
        "name": "mixtures-demo",
        "content_digest": "blake2:00",
        "confidence": 0.95,
        "seeds": SEEDS,
        "bench": BenchInfo(
            uri="/store/tpi-bench/demo",
            dataset="tpi-bench",
            build="demo",
            content_digest="blake2:11",
            rows={"tpi_test": 120, "janus_test": 80},
            linked_pairs=80,
        ),
        "data": (DataInfo(uri="/store/tpi-train/demo", use="tpi", content_digest="blake2:22", rows=640),),
        "model": {"architecture": "two_input"},
        "rows": tuple(
            MixtureRows(mixture=m, trained=dict.fromkeys(parts, 400), held_out=dict.fromkeys(parts, 20))
            for m, parts in MIXTURES.items()
        ),
        "runs": tuple(
            MixtureRun(
                mixture=m,
                inputs=i,
                seed=seed,
                steps=90,
                false_interruption=float(np.clip(FALSE[m] + rng.normal(0, 0.03), 0, 1)),
                recognised=float(np.clip(0.9 + rng.normal(0, 0.02), 0, 1)),
                class_accuracy=float(np.clip(0.7 + rng.normal(0, 0.02), 0, 1)),
                curve=tuple(
                    CurvePoint(
                        step=s,
                        loss=2 / (1 + s / 20) + at / 10,
                        held_out_loss=2.2 / (1 + s / 25) if s % 30 == 0 else None,
                    )
                    for s in range(10, 91, 10)
                ),
            )
            for i in inputs
            for at, m in enumerate(MIXTURES)
            for seed in SEEDS
        ),
        "summaries": tuple(
            MixtureSummary(
                mixture=m,
                inputs=i,
                parameters=70_000,
                false_interruption=SeedEstimate(
                    over_seeds=make_estimate(FALSE[m]), over_rows=make_estimate(FALSE[m], 0.05, 80)
                ),
                recognised=SeedEstimate(over_seeds=make_estimate(0.9), over_rows=make_estimate(0.9, 0.05, 120)),
                class_accuracy=SeedEstimate(over_seeds=make_estimate(0.7), over_rows=make_estimate(0.7, 0.05, 120)),
                twin_auc=make_estimate(0.5 if i == "text" else 0.93),
            )
            for i in inputs
            for m in MIXTURES
        ),
        "comparisons": (
            MixtureComparison(
                first="va",
                second="full",
                inputs="text_and_sound",
                metric="false_interruption",
                paired_by="seed",
                method="paired t-test",
                statistic=9.0,
                p=0.0004,
                difference=0.7,
                n=5,
            ),
        ),
        "confounds": (
            ConfoundScore(
                name="duration",
                mixture="full",
                false_interruption=0.45,
                recognised=0.61,
                twin_auc=0.58,
                detail="length of the clip and of its speech",
            ),
        ),
        "projections": tuple(make_projection(m, rng) for m in MIXTURES),
        "separations": tuple(
            EmbeddingSeparation(
                mixture=m, first="hard_negative", second="two_speakers", auc=auc, low=auc - 0.05, high=auc + 0.04, n=160
            )
            for m, auc in (("base", 0.55), ("va", 0.6), ("full", 0.95))
        ),
        "swaps": tuple(
            SwapSummary(
                mixture=m,
                inputs=i,
                contrast="hard_negative",
                swaps=320,
                words_effect=make_effect(0.0 if i == "sound" else words),
                sound_effect=make_effect(0.0 if i == "text" else 4.25),
                words_share=make_estimate(0.0 if i == "sound" else 1.0 if i == "text" else words / (words + 4.25)),
                caused_by_words=make_effect(0.61 if m == "va" else 0.0),
                caused_by_sound=make_effect(0.25),
                taken=((0.125, 0.375), (0.735, 0.985)),
            )
            for i in inputs
            for m, words in (("base", 0.25), ("va", 2.75), ("full", -0.5))
        ),
        "spliced": tuple(
            SplicedSummary(
                mixture=m,
                inputs=i,
                pairs=39,
                one_voice=make_effect(0.165),
                two_voices=make_effect(0.715),
                ranked=make_effect(0.945),
            )
            for i in inputs
            for m in MIXTURES
        ),
        "code_version": "0.0.0",
    }
    return MixtureResults(**{**found, **changes})


def make_projection(mixture: MixtureName, rng: np.random.Generator, rows: int = 90) -> Projection:
    groups = tuple(("one_speaker", "hard_negative", "two_speakers")[at % 3] for at in range(rows))
    points = rng.normal(size=(rows, 2)) + np.asarray([[4.0 * (at % 3 == 2), 2.0 * (at % 3 == 0)] for at in range(rows)])
    return Projection(
        system=mixture,
        perplexity=20,
        ids=tuple(f"row-{at}" for at in range(rows)),
        groups=groups,
        x=tuple(points[:, 0].tolist()),
        y=tuple(points[:, 1].tolist()),
    )
