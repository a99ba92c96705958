"""Curves over a common axis as HTML that scales to any width, with bars behind them where there are some."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from bystander.pages.axis_ticks import Axis, choose_axis

_WIDTH, _HEIGHT = 1000, 400
_MOST_POINTS = 1000


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: `x` rises. `series` gives its colour and, with it, the pattern of its stroke."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    series: int = 0
    dotted: bool = False
    """Points are marked: they are few, and what lies between is a guess."""


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars between edges; None where there is nothing to show."""

    name: str
    edges: Sequence[float]
    heights: Sequence[float | None]
    series: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """Places along the horizontal axis that a line marks. `kind` is `event`, `break` or `picked`."""

    name: str
    at: Sequence[float]
    kind: str = "event"


@dataclass(frozen=True, slots=True)
class Frame:
    """What the axes are called and span; without a span, all values."""

    x_name: str
    y_name: str = ""
    whole_x: bool = False
    x_span: tuple[float, float] | None = None
    y_span: tuple[float, float] | None = None
    stat: str = ""
    """Stands beside the title."""


def draw_lines(
    title: str,
    frame: Frame,
    lines: Sequence[Line],
    bars: Sequence[Bars] = (),
    marks: Sequence[Mark] = (),
) -> Markup:
    """Return the chart as a `figure`. Its text alternative names each line's first, lowest, highest and last value.

    Long lines are thinned to means over neighbouring points. What is not finite must be left out by the caller.
    """
    lines = [_thin(line) for line in lines if len(line.x)]
    heights = [height for one in bars for height in one.heights if height is not None]
    if not lines and not heights:
        return Markup(
            '<figure class="chart"><figcaption>{}</figcaption><p class="empty">No values.</p></figure>'
        ).format(title)
    x = choose_axis(
        frame.x_span or [*(x for line in lines for x in line.x), *(edge for one in bars for edge in one.edges)],
        whole=frame.whole_x,
        to_ticks=False,
    )
    floor = [0.0] if heights else []
    y = choose_axis(frame.y_span or [*(y for line in lines for y in line.y), *heights, *floor], most_ticks=5)
    gutter = max(map(len, y.texts))
    return Markup(
        '<figure class="chart lines"><figcaption>{title}{stat}</figcaption>{keys}'
        '<div class="graph" style="--gutter:{gutter}ch"><div class="scale" aria-hidden="true">{y_ticks}</div>'
        '<div class="field"><svg viewBox="0 0 {w} {h}" preserveAspectRatio="none" role="img" aria-label="{label}">'
        '{grid}{bars}{lines}</svg>{marks}</div><div class="below" aria-hidden="true">{x_ticks}</div>'
        '<div class="names" aria-hidden="true">{x_name}</div></div></figure>'
    ).format(
        title=title,
        stat=Markup(' <span class="stat">{}</span>').format(text) if (text := _tell(frame, y)) else "",
        keys=_draw_keys(lines, bars, marks),
        gutter=gutter,
        y_ticks=_join(
            Markup('<span style="bottom:{:.2f}%">{}</span>').format(100 * y.place(at), text)
            for at, text in zip(y.ticks, y.texts, strict=True)
        ),
        w=_WIDTH,
        h=_HEIGHT,
        label=_describe(title, lines, bars, marks),
        grid=_join(Markup('<path class="rule" d="M0 {:.1f}h{}"/>').format(_drop(at, y), _WIDTH) for at in y.ticks),
        bars=_join(_draw_bars(one, x, y) for one in bars),
        lines=_join(_draw_line(one, x, y) for one in lines),
        marks=_join(
            Markup('<span class="at {}" style="left:{:.2f}%" title="{}"></span>').format(
                mark.kind, 100 * x.place(at), mark.name
            )
            for mark in marks
            for at in mark.at
        ),
        x_ticks=_join(
            Markup('<span style="left:{:.2f}%">{}</span>').format(100 * x.place(at), text)
            for at, text in zip(x.ticks, x.texts, strict=True)
        ),
        x_name=f"{frame.x_name} {x.factor}".strip(),
    )


def _tell(frame: Frame, y: Axis) -> str:
    return ", ".join(part for part in (f"{frame.y_name} {y.factor}".strip(), frame.stat) if part)


def _thin(line: Line) -> Line:
    if len(line.x) <= _MOST_POINTS:
        return line
    edges = [round(at * len(line.x) / _MOST_POINTS) for at in range(_MOST_POINTS + 1)]
    return Line(
        line.name,
        [sum(line.x[a:b]) / (b - a) for a, b in pairwise(edges)],
        [sum(line.y[a:b]) / (b - a) for a, b in pairwise(edges)],
        line.series,
        line.dotted,
    )


def _drop(value: float, y: Axis) -> float:
    return _HEIGHT * (1 - y.place(value))


def _draw_line(line: Line, x: Axis, y: Axis) -> Markup:
    points = [f"{_WIDTH * x.place(a):.1f} {_drop(b, y):.1f}" for a, b in zip(line.x, line.y, strict=True)]
    drawn = Markup('<path class="line s{series} stroke{series}" d="M{points}"/>').format(
        series=line.series, points="L".join(points)
    )
    if line.dotted or len(points) == 1:
        drawn += Markup('<path class="dot s{}" d="{}"/>').format(
            line.series, "".join(f"M{point}h0" for point in points)
        )
    return drawn


def _draw_bars(bars: Bars, x: Axis, y: Axis) -> Markup:
    shapes = Markup("")
    for (low, high), height in zip(pairwise(bars.edges), bars.heights, strict=True):
        left, right = _WIDTH * x.place(low), _WIDTH * x.place(high)
        if height is not None and right > left:
            # What is nothing is a line of its own: it was measured.
            top = min(_drop(height, y), _HEIGHT - 3)
            shapes += Markup('<rect class="bar-of s{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
                bars.series, left + 1, top, max(right - left - 2, 0.5), _HEIGHT - top
            )
    return shapes


def _draw_keys(lines: Sequence[Line], bars: Sequence[Bars], marks: Sequence[Mark]) -> Markup:
    named = [
        *(
            Markup('<li><span class="swatch s{}" style="background:var(--series)"></span>{}</li>').format(
                b.series, b.name
            )
            for b in bars
            if b.name
        ),
        *(
            Markup(
                '<li><svg class="key" viewBox="0 0 24 14" aria-hidden="true"><path class="line s{s} stroke{s}" '
                'd="M1 7h22"/>{dot}</svg>{name}</li>'
            ).format(
                s=line.series,
                dot=Markup('<path class="dot s{}" d="M12 7h0"/>').format(line.series) if line.dotted else "",
                name=line.name,
            )
            for line in lines
            if line.name
        ),
        *(
            Markup('<li><span class="swatch at {}"></span>{}</li>').format(mark.kind, mark.name)
            for mark in marks
            if mark.at
        ),
    ]
    return Markup('<ul class="series">{}</ul>').format(_join(named)) if named else Markup("")


def _describe(title: str, lines: Sequence[Line], bars: Sequence[Bars], marks: Sequence[Mark]) -> str:
    parts = [
        f"{line.name or title}: first {line.y[0]:.4g}, lowest {min(line.y):.4g}, highest {max(line.y):.4g}, "
        f"last {line.y[-1]:.4g}"
        for line in lines
    ]
    for one in bars:
        shown = [height for height in one.heights if height is not None]
        if shown:
            parts.append(f"{one.name or title}: {len(shown)} bars, lowest {min(shown):.4g}, highest {max(shown):.4g}")
    parts += [f"{mark.name} at {', '.join(f'{at:.4g}' for at in mark.at)}" for mark in marks if mark.at]
    return f"{title}. {'; '.join(parts)}"


def _join(parts: Iterable[Markup]) -> Markup:
    return Markup("").join(parts)
