"""Means with their intervals as dots on a common scale, a line a row of the plot and series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from bystander.pages.charts import show_key
from bystander.schemas.evaluation_scores import Estimate
from bystander.schemas.evaluation_table import show_figure

COLOURS = 8
"""Series that the style sheet tells apart by colour; shapes repeat after three, so that colour is not all."""

_SHAPES = 3


@dataclass(frozen=True, slots=True)
class PlotScale:
    """The range that a plot spans, and the direction that is better (None: neither)."""

    lowest: float
    highest: float
    higher_is_better: bool | None = None
    reference: float | None = None
    """A value marked by a line, such as chance."""


@dataclass(frozen=True, slots=True)
class PlotDot:
    """One estimate; `series` is its place among the page's systems or judges, which gives colour and shape."""

    name: str
    series: int
    estimate: Estimate
    singles: Sequence[float] = ()
    """What the mean is taken over, where each is to be seen, as the figures of single seeds are."""


@dataclass(frozen=True, slots=True)
class PlotRow:
    """What one label of the plot has: a dot a series."""

    label: str
    dots: Sequence[PlotDot]


def name_mark(series: int) -> str:
    """Return the CSS classes of a series' colour and shape."""
    return f"s{series % COLOURS} shape{series % _SHAPES}"


def draw_intervals(title: str, scale: PlotScale, rows: Sequence[PlotRow]) -> Markup:
    """Return the plot as a `figure`; each dot's text alternative gives its mean, interval and number of rows."""
    lines = Markup("").join(
        Markup('<tr><th scope="row">{label}{n}</th><td>{lanes}</td></tr>').format(
            label=show_key(row.label), n=_show_count(row), lanes=Markup("").join(_draw_dot(d, scale) for d in row.dots)
        )
        for row in rows
    )
    direction = ""
    if scale.higher_is_better is not None:
        direction = "↑ higher is better" if scale.higher_is_better else "↓ lower is better"
    return Markup(
        '<figure class="chart"><figcaption>{} <span class="stat">{}</span></figcaption>'
        '<table class="dots"><tbody>{}</tbody><tfoot aria-hidden="true"><tr><td></td>'
        '<td><div class="lane-of-dot"><div class="ticks">{}</div></div></td></tr></tfoot></table></figure>'
    ).format(title, direction, lines, _draw_ticks(scale))


def show_legend(names: Sequence[str]) -> Markup:
    """Return the legend of the series, in their order."""
    keys = Markup("").join(
        Markup('<li><span class="mark {}"></span>{}</li>').format(name_mark(at), name) for at, name in enumerate(names)
    )
    return Markup('<ul class="series">{}</ul>').format(keys)


def _show_count(row: PlotRow) -> Markup:
    counts = sorted({dot.estimate.n for dot in row.dots if dot.estimate.n})
    if not counts:
        return Markup("")
    text = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    return Markup(' <span class="stat">n {}</span>').format(text)


def _draw_dot(dot: PlotDot, scale: PlotScale) -> Markup:
    mean, low, high = dot.estimate.mean, dot.estimate.low, dot.estimate.high
    text = f"{dot.name}: no rows" if mean is None else f"{dot.name}: {show_figure(mean)}"
    shapes = Markup("")
    if scale.reference is not None:
        shapes += Markup('<span class="reference" style="left:{:.2f}%"></span>').format(_place(scale.reference, scale))
    if mean is not None and low is not None and high is not None:
        text += f", interval {show_figure(low)} to {show_figure(high)}, n {dot.estimate.n}"
        start, end = _place(low, scale), _place(high, scale)
        shapes += Markup('<span class="range {}" style="left:{:.2f}%;width:{:.2f}%"></span>').format(
            name_mark(dot.series), start, end - start
        )
    for single in dot.singles:
        shapes += Markup('<span class="single {}" style="left:{:.2f}%"></span>').format(
            name_mark(dot.series), _place(single, scale)
        )
    if dot.singles:
        text += f"; singly {', '.join(show_figure(single) for single in sorted(dot.singles))}"
    if mean is not None:
        shapes += Markup('<span class="mark {}" style="left:{:.2f}%"></span>').format(
            name_mark(dot.series), _place(mean, scale)
        )
    return Markup(
        '<div class="lane-of-dot{tall}" role="img" aria-label="{text}" title="{text}"><div class="track">{shapes}</div>'
        '<span class="value">{figure}</span></div>'
    ).format(tall=" tall" if dot.singles else "", text=text, shapes=shapes, figure=show_figure(mean))


def _place(value: float, scale: PlotScale) -> float:
    share = (value - scale.lowest) / (scale.highest - scale.lowest)
    return 100 * min(max(share, 0.0), 1.0)


def _draw_ticks(scale: PlotScale) -> Markup:
    values = [scale.lowest + (scale.highest - scale.lowest) * share for share in (0, 0.25, 0.5, 0.75, 1)]
    return Markup("").join(
        Markup('<span style="left:{}%">{:g}</span>').format(25 * at, value) for at, value in enumerate(values)
    )
