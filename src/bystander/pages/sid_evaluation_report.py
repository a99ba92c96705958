"""`report.html` of an evaluation of interruption detection: one file that shows, offline, what was measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from bystander.pages.interval_plot import show_legend
from bystander.pages.page_templates import render_page
from bystander.pages.sid_charts import draw_latencies, draw_penalties, draw_sid_breakdowns, draw_sid_scores
from bystander.pages.sid_examples import describe_examples
from bystander.schemas.sid_evaluation import AVERAGE, NOISE_SILENCE, SidExample
from bystander.schemas.sid_evaluation_scores import SidScores
from bystander.schemas.sid_table import SidTables, name_group, show_seconds


@dataclass(frozen=True, slots=True)
class SidEvaluationReport:
    """All that the page shows: `tables` are those of `tasks.sid_tables`."""

    scores: SidScores
    tables: SidTables
    heard: Mapping[str, SidExample] = field(default_factory=dict)
    """What the examples sound like, by id; those without are shown without a waveform."""

    @property
    def title(self) -> str:
        return f"Interruption detection, {self.scores.name}"

    @property
    def facts(self) -> list[tuple[str, str]]:
        scores, bench = self.scores, self.scores.bench
        tolerance = "none" if scores.tolerance_s is None else f"{scores.tolerance_s:g} s"
        cap = "none" if scores.penalty_cap_s is None else f"{scores.penalty_cap_s:g} s"
        return [
            ("bench", f"{bench.dataset} / {bench.build}, at {bench.uri}"),
            ("bench digest", bench.digest),
            ("tolerance", tolerance),
            ("cap of a false alarm without speech", cap),
            ("seed", str(scores.seed)),
            ("intervals", f"{scores.confidence:.0%}, bootstrap by {scores.resample_by}, {bench.clusters:,} drawn"),
            *((f"system {rater.name}", _describe_identity(rater.identity)) for rater in scores.systems),
            ("code", scores.code_version),
            *([("packages", _describe_identity(scores.packages))] if scores.packages else []),
        ]


def render_sid_evaluation_report(data: SidEvaluationReport) -> str:
    """Return the page. It loads nothing from anywhere; the same data give the same page."""
    scores = data.scores
    return render_page(
        "sid_evaluation_report.html.j2",
        ("evaluation_report.css", "sid_report.css", "sid_evaluation_report.css"),
        data=data,
        scores=scores,
        tiles=_count_tiles(scores),
        groups=_group_columns(data.tables),
        without_speech=NOISE_SILENCE in scores.bench.cases,
        capped=scores.penalty_cap_s is not None,
        penalties=draw_penalties(scores.scores),
        charts=draw_sid_scores(scores),
        latencies=draw_latencies(scores),
        breakdowns=draw_sid_breakdowns(scores),
        system_legend=show_legend([system.name for system in scores.systems]),
        examples=describe_examples(scores, data.heard),
        show=show_seconds,
    )


def _count_tiles(scores: SidScores) -> list[tuple[str, str]]:
    cases = scores.bench.cases
    return [
        ("systems", f"{len(scores.systems):,}"),
        ("clips", f"{cases[AVERAGE]:,}"),
        *((name_group(name), f"{count:,}") for name, count in cases.items() if name != AVERAGE),
    ]


def _group_columns(tables: SidTables) -> list[tuple[str, int]]:
    """Return the heads over the columns, and how many each spans."""
    groups: dict[str, int] = {}
    for column in tables.columns:
        groups[name_group(column.group)] = groups.get(name_group(column.group), 0) + 1
    return list(groups.items())


def _describe_identity(identity: Mapping[str, object]) -> str:
    def show(value: object) -> str:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)

    return ", ".join(f"{name} {show(value)}" for name, value in identity.items())
