"""What the page of an experiment with mixtures shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bystander.schemas.mixture_results import MixtureResults
from bystander.schemas.training_report import TrainingReport

_USES = {"tpi": "trained on", "dyadic": "trained on, dyadic", "bench_dyadic": "scored, dyadic"}


def describe_mixtures(results: MixtureResults, config: Mapping[str, Any]) -> TrainingReport:
    """Return what the page of a finished experiment shows; `config` is its configuration as JSON."""
    sizes = sorted({one.parameters for one in results.summaries})
    return TrainingReport(
        title=f"Mixtures, {results.name}",
        summary="Does a small model of words and sound take one speaker for two, once it has heard hard negatives?",
        facts=(
            ("content digest", results.content_digest),
            ("bench", f"{results.bench.dataset} / {results.bench.build}, at {results.bench.uri}"),
            *((_USES[info.use], f"{info.uri}, {info.rows:,} rows") for info in results.data),
            ("seeds", ", ".join(map(str, results.seeds))),
            ("weights", " to ".join(f"{size:,}" for size in (sizes[:1] + sizes[-1:] if len(sizes) > 1 else sizes))),
            ("code", results.code_version),
            ("packages", ", ".join(f"{name} {version}" for name, version in results.packages.items())),
        ),
        settings=config,
        notes=results.notes,
        mixtures=results,
    )
