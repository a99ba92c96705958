"""The charts of an evaluation: each score by system, its breakdowns, and the controls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from bystander.pages.interval_plot import PlotDot, PlotRow, PlotScale, draw_intervals
from bystander.schemas.evaluation import METRICS, TESTS, MetricName, TestName
from bystander.schemas.evaluation_scores import Estimate, EvaluationScores, SystemScore, TestScore
from bystander.schemas.evaluation_table import TEST_TITLES, ScoreTable, TableColumn, show_figure
from bystander.schemas.taxonomy import load_taxonomy

_NO_JUDGE = -1  # the last colour, which no judge has before the eighth
_NOTHING = Estimate(mean=None, low=None, high=None, n=0)


@dataclass(frozen=True, slots=True)
class HeatCell:
    """A figure of the table by scenario; `share` in [0, 1] is 1 for the best possible."""

    text: str
    share: float
    hint: str


@dataclass(frozen=True, slots=True)
class HeatTable:
    """A test's scores by scenario: of each its category, its number of rows, and a cell for each metric and system."""

    metrics: list[str]
    systems: list[str]
    lines: list[tuple[str, str, int, list[HeatCell]]]


@dataclass(frozen=True, slots=True)
class TestCharts:
    """What one judge found on one test, by the properties of the rows."""

    title: str
    charts: list[Markup]
    scenarios: HeatTable | None


def draw_scores(scores: EvaluationScores, table: ScoreTable) -> list[Markup]:
    """Return a plot for each column of the table: a row a system, a dot a judge."""
    charts = []
    judges = [judge.name for judge in scores.judges]
    for at, column in enumerate(table.columns):
        rows: dict[str, list[PlotDot]] = {}
        for row in table.rows:
            estimate = row.cells[at].estimate
            # Pair scores need no judge: one dot says all.
            if row.published or estimate.mean is None or (not column.group and row.system in rows):
                continue
            name, series = (row.judge, _find(row.judge, judges)) if column.group else ("pairs of twins", _NO_JUDGE)
            rows.setdefault(row.system, []).append(PlotDot(name, series, estimate))
        if rows:
            title = f"{column.group} {column.title}" if column.group else f"{column.title} of twins"
            charts.append(
                draw_intervals(title, _scale_of(column), [PlotRow(system, dots) for system, dots in rows.items()])
            )
    return charts


def draw_breakdowns(scores: EvaluationScores, table: ScoreTable, judge: str) -> list[TestCharts]:
    """Return, for each test, a plot a metric and property with a dot a system, and the table by scenario."""
    systems = [system.name for system in scores.systems]
    own = sorted(
        (score for score in scores.scores if score.judge == judge), key=lambda score: _find(score.system, systems)
    )
    return [found for test in TESTS if (found := _draw_test(own, systems, table, test)) is not None]


def draw_controls(scores: EvaluationScores) -> Markup:
    """Return the areas under the curve with the line of chance; nothing without controls."""
    if not scores.controls:
        return Markup("")
    rows = [
        PlotRow(
            control.name,
            [
                PlotDot(
                    "hears the clip" if control.hears else "reads the transcript",
                    1 if control.hears else 0,
                    Estimate(mean=control.auc, low=control.low, high=control.high, n=control.pairs),
                )
            ],
        )
        for control in scores.controls
    ]
    return draw_intervals("AUC of telling twins apart (line: chance)", PlotScale(0, 1, reference=0.5), rows)


def _draw_test(
    scores: Sequence[SystemScore], systems: Sequence[str], table: ScoreTable, test: TestName
) -> TestCharts | None:
    found = [(score.system, one) for score in scores for one in score.tests if one.test == test]
    properties = list(dict.fromkeys(breakdown.key for _, one in found for breakdown in one.breakdowns))
    charts = []
    for name in properties:
        values = _list_values(found, name)
        # One value for all rows splits nothing.
        if name == "scenario" or len(values) < 2:
            continue
        for metric in METRICS:
            rows = [
                PlotRow(value, [PlotDot(s, _find(s, systems), _get(one, name, value, metric)) for s, one in found])
                for value in values
            ]
            title = f"{metric.upper()} by {name}"
            charts.append(draw_intervals(title, _scale_of(_column_of(table, test, metric)), rows))
    scenarios = _cross_scenarios(found, table, test) if "scenario" in properties else None
    return TestCharts(TEST_TITLES[test], charts, scenarios) if charts or scenarios else None


def _cross_scenarios(found: Sequence[tuple[str, TestScore]], table: ScoreTable, test: TestName) -> HeatTable:
    order = {scenario.key: (at, scenario.category) for at, scenario in enumerate(load_taxonomy().scenarios)}
    unknown = (len(order), "")
    lines = []
    for scenario in sorted(_list_values(found, "scenario"), key=lambda key: (order.get(key, unknown), key)):
        cells, n = [], 0
        for metric in METRICS:
            column = _column_of(table, test, metric)
            for system, one in found:
                estimate = _get(one, "scenario", scenario, metric)
                cells.append(_make_cell(f"{system}, {metric.upper()}", estimate, column))
                n = max(n, estimate.n)
        lines.append((scenario, order.get(scenario, unknown)[1], n, cells))
    heads = [f"{metric.upper()} {_column_of(table, test, metric).arrow}" for metric in METRICS]
    return HeatTable(heads, [system for system, _ in found], lines)


def _make_cell(name: str, estimate: Estimate, column: TableColumn) -> HeatCell:
    if estimate.mean is None:
        return HeatCell("–", 0.0, f"{name}: no rows")
    share = (estimate.mean - column.lowest) / (column.highest - column.lowest)
    hint = f"{name}: {show_figure(estimate.low)} to {show_figure(estimate.high)}, n {estimate.n}"
    return HeatCell(show_figure(estimate.mean), share if column.higher_is_better else 1 - share, hint)


def _list_values(found: Sequence[tuple[str, TestScore]], name: str) -> list[str]:
    return list(dict.fromkeys(v for _, one in found for b in one.breakdowns if b.key == name for v in b.values))


def _get(one: TestScore, name: str, value: str, metric: MetricName) -> Estimate:
    for breakdown in one.breakdowns:
        if breakdown.key == name:
            return breakdown.values.get(value, {}).get(metric, _NOTHING)
    return _NOTHING


def _column_of(table: ScoreTable, test: TestName, metric: MetricName) -> TableColumn:
    return next(column for column in table.columns if column.key == f"{test}.{metric}")


def _scale_of(column: TableColumn) -> PlotScale:
    return PlotScale(column.lowest, column.highest, column.higher_is_better)


def _find(name: str, names: Sequence[str]) -> int:
    return names.index(name) if name in names else len(names)
