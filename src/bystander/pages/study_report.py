"""`report.html` of a study: who took part, what they said, and how sure one can be of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from bystander.pages.interval_plot import PlotDot, PlotRow, PlotScale, draw_intervals, show_legend
from bystander.pages.page_templates import render_page
from bystander.schemas.evaluation_scores import Estimate
from bystander.schemas.evaluation_table import show_figure, show_p
from bystander.schemas.study import StudyManifest, StudyQuestion
from bystander.schemas.study_published import PUBLISHED, SOURCE
from bystander.schemas.study_report import BREAKDOWNS, PreferenceFigure, RatedQuestion, RatingFigure, StudyReport

_DROPPED = {
    "failed_traps": "failed more traps than allowed",
    "too_fast": "were too fast",
    "unfinished": "did not finish",
}


@dataclass(frozen=True, slots=True)
class _Page:
    manifest: StudyManifest
    report: StudyReport

    @property
    def title(self) -> str:
        return f"Study {self.report.name}"

    @property
    def facts(self) -> list[tuple[str, str]]:
        manifest, settings, report = self.manifest, self.manifest.settings, self.report
        speed = "" if report.min_seconds is None else f", or takes less than {report.min_seconds:g} s for an item"
        finish = "" if report.keep_unfinished else ", or does not finish"
        return [
            ("kind", settings.kind),
            ("bench", f"{manifest.bench.name}, at {manifest.bench.uri}"),
            ("bench digest", manifest.bench.content_digest),
            *((f"evaluation {source.name}", source.uri) for source in manifest.evaluations),
            *([("systems", ", ".join(manifest.systems))] if manifest.systems else []),
            ("items and sheets", f"{manifest.items} items, {manifest.sheets} sheets"),
            ("a rater is dropped who", f"fails more than {report.max_failed_traps} traps{speed}{finish}"),
            ("order of options", settings.option_order),
            ("seed", str(settings.seed)),
            ("code", report.code_version),
        ]


def render_study_report(manifest: StudyManifest, report: StudyReport) -> str:
    """Return the page. It loads nothing from anywhere; the same data give the same page."""
    systems = list(manifest.systems)
    rated = [one for one in report.questions if one.figure.n]
    return render_page(
        "study_report.html.j2",
        ("evaluation_report.css", "study_report.css"),
        data=_Page(manifest, report),
        report=report,
        tiles=_count_tiles(report),
        dropped=_DROPPED,
        question_of={question.name: question for question in manifest.wording.questions},
        rated=rated,
        charts=[_draw_question(manifest.question(name), own) for name, own in _by_question(rated)],
        legend=show_legend(["as if independent", "raters and items as clusters"]),
        systems_legend=show_legend(systems) if len(systems) > 1 else Markup(""),
        breakdowns=[_draw_breakdowns(manifest, name, own) for name, own in _by_question(rated)],
        published=[figure for figure in PUBLISHED if figure.kind == report.kind],
        source=SOURCE,
        show_figure=show_figure,
        show_p=lambda p: "–" if p is None else show_p(p).replace("= ", ""),
        show_share=_show_share,
    )


def _count_tiles(report: StudyReport) -> list[tuple[str, str]]:
    return [
        ("raters", f"{report.raters:,}"),
        ("kept", f"{report.kept:,}"),
        ("ratings kept", f"{report.ratings:,}"),
        ("ratings of dropped raters", f"{report.answers - report.ratings:,}"),
        *([("median time", f"{report.median_seconds:.0f} s")] if report.median_seconds is not None else []),
    ]


def _by_question(rated: Iterable[RatedQuestion]) -> list[tuple[str, list[RatedQuestion]]]:
    found: dict[str, list[RatedQuestion]] = {}
    for one in rated:
        found.setdefault(one.question, []).append(one)
    return list(found.items())


def _scale_of(question: StudyQuestion) -> PlotScale:
    scores = question.scores.values()
    return PlotScale(min(scores), max(scores), higher_is_better=True)


def _draw_question(question: StudyQuestion, own: list[RatedQuestion]) -> Markup:
    rows = [
        PlotRow(
            one.system or "all",
            [
                PlotDot("as if independent", 0, _estimate(one.figure, clustered=False)),
                PlotDot("clustered", 1, _estimate(one.figure, clustered=True)),
            ],
        )
        for one in own
    ]
    return draw_intervals(question.text, _scale_of(question), rows)


def _draw_breakdowns(manifest: StudyManifest, name: str, own: list[RatedQuestion]) -> tuple[str, list[Markup]]:
    question = manifest.question(name)
    systems: list[str | None] = list(manifest.systems) or [None]
    charts = []
    for key in BREAKDOWNS:
        values = sorted({value for one in own for value in one.breakdowns[key]})
        rows = [
            PlotRow(
                value,
                [
                    PlotDot(
                        one.system or "all", systems.index(one.system), _estimate(one.breakdowns[key][value], False)
                    )
                    for one in own
                    if value in one.breakdowns[key]
                ],
            )
            for value in values
        ]
        charts.append(draw_intervals(f"By {key}", _scale_of(question), rows))
    return question.text, charts


def _estimate(figure: RatingFigure, clustered: bool) -> Estimate:
    low, high = (figure.clustered_low, figure.clustered_high) if clustered else (figure.low, figure.high)
    return Estimate(mean=figure.mean, low=low, high=high, n=figure.n)


def _show_share(figure: PreferenceFigure, count: int) -> str:
    return f"{count / figure.n:.1%}".replace("%", " %") if figure.n else "–"
