"""People against judges: means of ratings of replies, and how they go with a judge's scores of the same replies."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence

import pyarrow.parquet as pq

from bystander.schemas.evaluation import METRICS
from bystander.schemas.evaluation_scores import EvaluationScores
from bystander.schemas.study import StudyManifest
from bystander.schemas.study_report import JudgeCorrelation
from bystander.storage.evaluation_manifest import read_evaluation
from bystander.storage.filesystem import open_store
from bystander.tasks.metrics.judge_agreement import correlate_scores
from bystander.tasks.studies.ratings import Rating

Means = Mapping[tuple[str, str, str], float]
"""By metric, system and row id: the mean of people's ratings."""


def average_replies(manifest: StudyManifest, ratings: Sequence[Rating]) -> Means:
    """Return the mean rating of every reply."""
    scores = {question.name: question.scores for question in manifest.wording.questions}
    found: dict[tuple[str, str, str], list[float]] = {}
    for rating in ratings:
        if rating.item.system is not None and rating.question in METRICS:
            at = (rating.question, rating.item.system, rating.item.row)
            found.setdefault(at, []).append(scores[rating.question][rating.value])
    return {at: math.fsum(values) / len(values) for at, values in sorted(found.items())}


def format_ratings(means: Means) -> str:
    """Return means as the CSV that `evaluate tpi --ratings` reads: id, system, rsf, oh."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(["id", "system", *METRICS])
    for system, row in sorted({(system, row) for _, system, row in means}):
        cells = [means.get((metric, system, row)) for metric in METRICS]
        writer.writerow([row, system, *("" if cell is None else f"{cell:.6g}" for cell in cells)])
    return sink.getvalue()


def correlate_with_judges(manifest: StudyManifest, means: Means) -> list[JudgeCorrelation]:
    """Return Pearson's and Spearman's correlation with each judge of the study's evaluations.

    Raises:
        BuildError: an evaluation is damaged.
    """
    found = []
    for source in manifest.evaluations:
        folder = open_store(source.uri)
        evaluation, _ = read_evaluation(folder, EvaluationScores)
        verdicts: dict[str, dict[tuple[str, str, str], float]] = {}
        for info in evaluation.files:
            if info.judge is None or info.system is None or not info.file.startswith("verdicts/"):
                continue
            table = pq.read_table(io.BytesIO(folder.read_bytes(info.file)), columns=["id", *METRICS])
            for row in table.to_pylist():
                for metric in METRICS:
                    score = row[metric]["score"]
                    if score is not None:
                        verdicts.setdefault(info.judge, {})[metric, info.system, row["id"]] = float(score)
        for judge, scores in verdicts.items():
            found += _correlate(source.name, judge, manifest.systems, means, scores)
    return found


def _correlate(
    evaluation: str, judge: str, systems: Sequence[str], means: Means, scores: Means
) -> list[JudgeCorrelation]:
    found = []
    for metric in METRICS:
        for system in (None, *systems) if len(systems) > 1 else (None,):
            shared = [at for at in means if at[0] == metric and system in (None, at[1]) and at in scores]
            if not shared:
                continue
            people, judged = [means[at] for at in shared], [scores[at] for at in shared]
            plain = correlate_scores(people, judged)
            ranked = correlate_scores(_rank(people), _rank(judged))
            found.append(
                JudgeCorrelation(
                    evaluation=evaluation,
                    judge=judge,
                    system=system,
                    metric=metric,
                    n=len(shared),
                    pearson=plain.value,
                    pearson_p=plain.p,
                    spearman=ranked.value,
                    spearman_p=ranked.p,
                    undefined=_explain(plain.reason),
                )
            )
    return found


def _rank(values: Sequence[float]) -> list[float]:
    from scipy import stats

    return [float(rank) for rank in stats.rankdata(values)]


def _explain(reason: str | None) -> str | None:
    return reason and reason.replace("the first gives", "people give").replace("the second gives", "the judge gives")
