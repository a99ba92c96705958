"""`report.html` of an evaluation: one file that shows, offline, what was measured and what it sounded like."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bystander.pages.clips import describe_clips, shorten_text
from bystander.pages.interval_plot import name_mark, show_legend
from bystander.pages.page_templates import render_page
from bystander.pages.scatter_plot import draw_projection
from bystander.pages.score_charts import draw_breakdowns, draw_controls, draw_scores
from bystander.schemas.evaluation import TESTS, MetricName, TestName
from bystander.schemas.evaluation_scores import EvaluationScores, Example
from bystander.schemas.evaluation_table import (
    TEST_TITLES,
    AdjustedComparison,
    ScoreTable,
    TableRow,
    show_figure,
    show_p,
)

_MOST_SHOWN = 1200


@dataclass(frozen=True, slots=True)
class JudgedExample:
    """What a system said to an example's clip, and the judge's reasons; None where there is none."""

    example: Example
    answer: str | None
    answer_fault: str | None
    rsf_rationale: str | None
    oh_rationale: str | None


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """All that the page shows.

    `rows` have the columns of `schemas.evaluation.BENCH_ROW`, one for each id of the examples, in the order in which
    they are shown. `table` and `comparisons` are those of `tasks.evaluation_tables`.
    """

    scores: EvaluationScores
    table: ScoreTable
    comparisons: Sequence[AdjustedComparison]
    examples: Sequence[JudgedExample]
    rows: pa.Table

    @property
    def title(self) -> str:
        return f"Evaluation {self.scores.name}"

    @property
    def facts(self) -> list[tuple[str, str]]:
        scores, bench = self.scores, self.scores.bench
        return [
            ("bench", f"{bench.dataset} / {bench.build}, at {bench.uri}"),
            ("bench digest", bench.content_digest),
            ("pack", f"{scores.pack}, digest {scores.pack_digest}"),
            ("seed", str(scores.seed)),
            ("intervals", f"{scores.confidence:.0%}, bootstrap"),
            *((f"system {rater.name}", _describe_identity(rater.identity)) for rater in scores.systems),
            *((f"judge {rater.name}", _describe_identity(rater.identity)) for rater in scores.judges),
            ("code", scores.code_version),
            *([("packages", _describe_identity(scores.packages))] if scores.packages else []),
        ]


def render_evaluation_report(data: EvaluationReport) -> str:
    """Return the page. It loads nothing from anywhere; the same data give the same page."""
    scores = data.scores
    judges = [judge.name for judge in scores.judges]
    return render_page(
        "evaluation_report.html.j2",
        ("evaluation_report.css",),
        data=data,
        scores=scores,
        tiles=_count_tiles(scores),
        groups=_group_columns(data.table),
        counts=[_count_rows(data.table, row) for row in data.table.rows],
        families=_group_comparisons(data.comparisons),
        charts=draw_scores(scores, data.table),
        judge_legend=show_legend(judges),
        system_legend=show_legend([system.name for system in scores.systems]),
        breakdowns=[(judge, found) for judge in judges if (found := draw_breakdowns(scores, data.table, judge))],
        controls_chart=draw_controls(scores),
        clips=_join_answers(data),
        projections=[draw_projection(projection) for projection in scores.projections],
        marks={system.name: name_mark(at) for at, system in enumerate(scores.systems)},
        tests=TEST_TITLES,
        show_figure=show_figure,
        show_p=show_p,
        show_text=lambda text: shorten_text(text, _MOST_SHOWN),
    )


def _count_tiles(scores: EvaluationScores) -> list[tuple[str, str]]:
    return [
        ("systems", f"{len(scores.systems):,}"),
        ("judges", f"{len(scores.judges):,}"),
        *(
            (f"rows of {TEST_TITLES[test]}", f"{scores.bench.rows[test]:,}")
            for test in TESTS
            if test in scores.bench.rows
        ),
        ("linked pairs", f"{scores.bench.linked_pairs:,}"),
    ]


def _group_columns(table: ScoreTable) -> list[tuple[str, int]]:
    """Return the heads over the columns, and how many each spans."""
    groups: dict[str, int] = {}
    for column in table.columns:
        groups[column.group or "Twins"] = groups.get(column.group or "Twins", 0) + 1
    return list(groups.items())


def _count_rows(table: ScoreTable, row: TableRow) -> str:
    if row.published:
        return "–"
    counts: dict[str, int] = {}
    for column, cell in zip(table.columns, row.cells, strict=True):
        counts[column.group] = max(counts.get(column.group, 0), cell.estimate.n)
    return " / ".join(f"{count:,}" for count in counts.values())


def _group_comparisons(
    comparisons: Sequence[AdjustedComparison],
) -> dict[tuple[str, TestName, MetricName], list[AdjustedComparison]]:
    families: dict[tuple[str, TestName, MetricName], list[AdjustedComparison]] = {}
    for one in comparisons:
        c = one.comparison
        families.setdefault((c.judge, c.test, c.metric), []).append(one)
    return families


def _join_answers(data: EvaluationReport) -> list[tuple[dict[str, Any], list[JudgedExample]]]:
    """Return each clip once, with all that systems said to it."""
    answers: dict[str, list[JudgedExample]] = {}
    for one in data.examples:
        answers.setdefault(one.example.id, []).append(one)
    return [(clip, answers.get(clip["id"], [])) for clip in describe_clips(data.rows)]


def _describe_identity(identity: Mapping[str, object]) -> str:
    def show(value: object) -> str:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)

    return ", ".join(f"{name} {show(value)}" for name, value in identity.items())
