"""The charts of an evaluation of interruption detection: scores, what APT is made of, latencies, breakdowns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from markupsafe import Markup

from bystander.pages.charts import Series, draw_histogram, show_key
from bystander.pages.interval_plot import COLOURS, PlotDot, PlotRow, PlotScale, draw_intervals
from bystander.schemas.evaluation_scores import Estimate
from bystander.schemas.sid_evaluation_scores import SidGroupScore, SidScores, SidSystemScore
from bystander.schemas.sid_table import name_group, show_seconds

PARTS = {
    "late": "late: latency of right stops",
    "early": "early: stopped before the break",
    "false_alarm": "false alarm: stopped where there is no break",
    "missed": "missed: never stopped for a break",
}
"""What APT is made of, in words."""

_TITLES = {"apt": "APT, seconds", "fir": "FIR", "irl": "IRL, seconds"}


@dataclass(frozen=True, slots=True)
class SidBreakdownCharts:
    """Plots by the values of one property."""

    title: str
    charts: list[Markup]


def draw_sid_scores(scores: SidScores) -> list[Markup]:
    """Return a plot each of APT, FIR and IRL: a row a group, a dot a system."""
    groups = [
        [(score.system, one) for score in scores.scores for one in score.groups if one.group == name]
        for name in scores.bench.cases
    ]
    return _draw_metrics(
        [(name_group(name), found) for name, found in zip(scores.bench.cases, groups, strict=True)], scores
    )


def draw_sid_breakdowns(scores: SidScores) -> list[SidBreakdownCharts]:
    """Return, for each property of the cases, a plot each of APT, FIR and IRL: a row a value, a dot a system."""
    found: dict[str, dict[str, list[tuple[str, SidGroupScore]]]] = {}
    for score in scores.scores:
        for breakdown in score.breakdowns:
            for one in breakdown.groups:
                found.setdefault(breakdown.key, {}).setdefault(one.group, []).append((score.system, one))
    return [
        SidBreakdownCharts(f"By {key}", _draw_metrics(list(values.items()), scores)) for key, values in found.items()
    ]


def draw_latencies(scores: SidScores) -> list[Markup]:
    """Return a histogram of each system's latencies, over a common axis."""
    timed = [score for score in scores.scores if score.latencies_s]
    if not timed:
        return []
    span = (0.0, max(score.latencies_s[-1] for score in timed))
    return [
        draw_histogram(score.system, "s", [Series("", score.latencies_s, f"--s{at % COLOURS}")], span=span)
        for at, score in enumerate(scores.scores)
        if score.latencies_s
    ]


def draw_penalties(scores: Sequence[SidSystemScore]) -> Markup:
    """Return bars of APT over all cases, each divided by what brings it, as a `figure` around a table."""
    most = max((_mean(score) for score in scores), default=0.0) or 1.0
    lines = Markup("").join(_draw_penalty(score, most) for score in scores)
    keys = Markup("").join(
        Markup('<li><span class="swatch part-{}"></span>{}</li>').format(part, text) for part, text in PARTS.items()
    )
    return Markup(
        '<figure class="chart"><figcaption>APT over all clips, by what brings it <span class="stat">↓ lower is better'
        '</span></figcaption><ul class="series">{}</ul><table class="bars penalties"><tbody>{}</tbody></table></figure>'
    ).format(keys, lines)


def _draw_penalty(score: SidSystemScore, most: float) -> Markup:
    parts = score.groups[-1].apt_parts
    text = f"{score.system}: " + ", ".join(f"{name.replace('_', ' ')} {show_seconds(parts[name])} s" for name in PARTS)
    spans = Markup("").join(
        Markup('<span class="part-{}" style="width:{:.2f}%"></span>').format(name, 100 * parts[name] / most)
        for name in PARTS
        if parts[name] > 0
    )
    return Markup(
        '<tr><th scope="row">{}</th><td><div class="stack" role="img" aria-label="{text}" title="{text}">{}</div></td>'
        '<td class="number">{}</td></tr>'
    ).format(show_key(score.system), spans, show_seconds(_mean(score)), text=text)


def _mean(score: SidSystemScore) -> float:
    return score.groups[-1].apt.mean or 0.0


def _draw_metrics(rows: Sequence[tuple[str, Sequence[tuple[str, SidGroupScore]]]], scores: SidScores) -> list[Markup]:
    systems = [score.system for score in scores.scores]
    return [
        draw_intervals(title, _choose_scale(metric, drawn), drawn)
        for metric, title in _TITLES.items()
        if (drawn := list(_make_rows(rows, metric, systems)))
    ]


def _make_rows(
    rows: Sequence[tuple[str, Sequence[tuple[str, SidGroupScore]]]], metric: str, systems: Sequence[str]
) -> Iterator[PlotRow]:
    """Yield the rows in which a system has this figure: clips without a break have no latency."""
    for label, found in rows:
        dots = [PlotDot(system, systems.index(system), cast(Estimate, getattr(one, metric))) for system, one in found]
        if any(dot.estimate.mean is not None for dot in dots):
            yield PlotRow(label, dots)


def _choose_scale(metric: str, rows: Sequence[PlotRow]) -> PlotScale:
    if metric == "fir":
        return PlotScale(0, 1, higher_is_better=False)
    highest = max((dot.estimate.high or dot.estimate.mean or 0.0 for row in rows for dot in row.dots), default=0.0)
    return PlotScale(0, round_up(highest), higher_is_better=False)


def round_up(value: float) -> float:
    """Return the least of 1, 2, 4, 6, 8 or 10 times a power of ten that is not below `value`: quarters read well."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * factor for factor in (1, 2, 4, 6, 8, 10, 20) if power * factor >= value)
