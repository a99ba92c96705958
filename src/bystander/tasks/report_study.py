"""Makes the report of a study out of the answers that came in."""

from __future__ import annotations

from dataclasses import dataclass

from bystander.pages.study_report import render_study_report
from bystander.schemas.errors import InputError
from bystander.schemas.study import StudyManifest
from bystander.schemas.study_report import StudyReport
from bystander.storage.build_manifest import get_code_version
from bystander.storage.filesystem import Store
from bystander.storage.study_files import KEY_NAME, check_files, open_study, read_answers, read_key
from bystander.tasks.metrics.bootstrap import LEVEL
from bystander.tasks.studies.figures import (
    average_questions,
    compare_satisfaction,
    measure_alphas,
    weigh_preferences,
)
from bystander.tasks.studies.judges import average_replies, correlate_with_judges, format_ratings
from bystander.tasks.studies.ratings import DropRule, count_ratings

REPORT_NAME, PAGE_NAME, RATINGS_NAME = "report.json", "report.html", "ratings.csv"


@dataclass(frozen=True, slots=True)
class ReportedStudy:
    """The study's folder, its manifest and what was found."""

    folder: Store
    manifest: StudyManifest
    report: StudyReport


def report_study(
    study: str,
    max_failed_traps: int | None = None,
    min_seconds: float | None = None,
    keep_unfinished: bool | None = None,
    level: float = LEVEL,
) -> ReportedStudy:
    """Write `report.json`, `report.html`, and of replies `ratings.csv`, into the study's folder.

    Args:
        study: its folder.
        max_failed_traps: a rater who fails more is dropped; None, as for the next two: what the study's settings say.
        min_seconds: a rater whose median time for an item is below is dropped.
        keep_unfinished: whether raters count who have not answered all of their sheets.
        level: of the intervals.

    Raises:
        BuildError: the study or an evaluation is damaged.
        InputError: no answers are there.
    """
    folder, manifest = open_study(study)
    check_files(folder, manifest, [KEY_NAME])
    settings = manifest.settings
    rule = DropRule(
        settings.max_failed_traps if max_failed_traps is None else max_failed_traps,
        settings.min_seconds if min_seconds is None else min_seconds,
        settings.keep_unfinished if keep_unfinished is None else keep_unfinished,
    )
    counted = count_ratings(read_answers(folder), manifest, read_key(folder), rule)
    if not counted.raters:
        raise InputError(f"{folder.uri}: has no answers yet; read results with `study import`, or `study serve`")
    preferences = weigh_preferences(manifest, counted.ratings, level)
    means = average_replies(manifest, counted.ratings)
    report = StudyReport(
        name=manifest.name,
        kind=settings.kind,
        confidence=level,
        max_failed_traps=rule.max_failed_traps,
        min_seconds=rule.min_seconds,
        keep_unfinished=rule.keep_unfinished,
        raters=counted.raters,
        kept=counted.kept,
        dropped=dict(counted.dropped),
        answers=counted.answers,
        ratings=len(counted.ratings),
        median_seconds=counted.median_seconds,
        traps=tuple(counted.traps),
        questions=tuple(average_questions(manifest, counted.ratings, level)),
        preferences=tuple(preferences),
        comparisons=tuple(compare_satisfaction(preferences)),
        alphas=tuple(measure_alphas(manifest, counted.ratings)),
        correlations=tuple(correlate_with_judges(manifest, means)) if means else (),
        code_version=get_code_version(),
    )
    folder.write_bytes(REPORT_NAME, report.model_dump_json(indent=2).encode() + b"\n")
    if means:
        folder.write_bytes(RATINGS_NAME, format_ratings(means).encode())
    folder.write_bytes(PAGE_NAME, render_study_report(manifest, report).encode())
    return ReportedStudy(folder, manifest, report)
