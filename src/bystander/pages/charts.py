"""Small charts as HTML that scales to any width and takes its colours from the page's style sheet.

Shapes are inline SVG stretched to the box; text is HTML around it, so that it stays legible on a phone. Every chart
has a text alternative.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

_WIDTH, _HEIGHT = 1000, 300


@dataclass(frozen=True, slots=True)
class Series:
    """Values of one kind. `colour` is the name of a CSS variable of the page."""

    name: str
    values: Sequence[float]
    colour: str


def draw_histogram(
    title: str, unit: str, series: Sequence[Series], bins: int = 24, span: tuple[float, float] | None = None
) -> Markup:
    """Return a histogram of one or more series over common bins, as a `figure`.

    Bars of several series stand side by side. Values that are null or not finite must be left out by the caller. The
    axis covers the values, and all of `span` if there is one, so that several charts can share it.
    """
    filled = [one for one in series if len(one.values)]
    if not filled:
        return Markup(
            '<figure class="chart"><figcaption>{}</figcaption><p class="empty">No values.</p></figure>'
        ).format(title)
    covered = np.concatenate([np.asarray(values, float) for values in (*(one.values for one in filled), span or ())])
    low, high, step = _choose_bounds(covered, bins)
    edges = np.arange(round((high - low) / step) + 1) * step + low
    counts = [np.histogram(np.clip(one.values, low, high), edges)[0] for one in filled]
    most = max(int(count.max()) for count in counts)
    slot = _WIDTH / (len(edges) - 1)
    bar = slot * 0.88 / len(filled)
    shapes = [
        Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" style="fill:var({})"/>').format(
            slot * (at + 0.06) + bar * index, _HEIGHT * (1 - n / most), bar, _HEIGHT * n / most, one.colour
        )
        for index, (one, count) in enumerate(zip(filled, counts, strict=True))
        for at, n in enumerate(count)
        if n
    ]
    stats = "; ".join(f"{one.name or title}: {_summarise(one.values, unit)}" for one in filled)
    keys = Markup("").join(
        Markup(
            '<li><span class="swatch" style="background:var({})"></span>{} <span class="stat">{}</span></li>'
        ).format(one.colour, one.name or "all", _summarise(one.values, unit))
        for one in filled
    )
    return Markup(
        '<figure class="chart"><figcaption>{title}</figcaption><ul class="keys">{keys}</ul>'
        '<div class="plot"><span class="most" aria-hidden="true">{most}</span>'
        '<svg viewBox="0 0 {w} {h}" preserveAspectRatio="none" role="img" aria-label="{label}">{shapes}</svg></div>'
        '<div class="axis" aria-hidden="true">{ticks}</div></figure>'
    ).format(
        title=title,
        keys=keys,
        most=most,
        w=_WIDTH,
        h=_HEIGHT,
        label=f"Histogram of {title}. {stats}",
        shapes=Markup("").join(shapes),
        ticks=_draw_ticks(low, high, unit),
    )


def draw_bars(title: str, counts: Mapping[str, int], colours: Mapping[str, str] | None = None) -> Markup:
    """Return horizontal bars with their numbers, as a `figure` around a table."""
    if not counts:
        return Markup("")
    most = max(counts.values()) or 1
    lines = Markup("").join(
        Markup(
            '<tr><th scope="row">{}</th><td class="bar"><span style="width:{:.1f}%;background:var({})"></span></td>'
            '<td class="number">{}</td></tr>'
        ).format(show_key(key), 100 * count / most, (colours or {}).get(key, "--bar"), f"{count:,}")
        for key, count in counts.items()
    )
    return Markup(
        '<figure class="chart"><figcaption>{}</figcaption><table class="bars"><tbody>{}</tbody></table></figure>'
    ).format(title, lines)


def show_key(key: str) -> Markup:
    """Return a snake_case key so that a browser may break it at its underscores."""
    return Markup("_<wbr>").join(escape(part) for part in key.split("_"))


def _choose_bounds(values: np.ndarray, bins: int) -> tuple[float, float, float]:
    """Return the lowest edge, the highest, and a step of 1, 2, 2.5 or 5 times a power of ten."""
    low, high = float(values.min()), float(values.max())
    span = max(high - low, 0.05, abs(high) * 1e-3)
    raw = span / bins
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw)
    first = math.floor(low / step + 1e-9) * step
    # A multiple of four puts all five ticks on edges.
    steps = 4 * max(2, math.ceil((high - first) / step / 4 + 1e-9))
    return first, first + steps * step, step


def _draw_ticks(low: float, high: float, unit: str) -> Markup:
    shown = [low + (high - low) * share for share in (0, 0.25, 0.5, 0.75, 1)]
    texts = [f"{round(value, 6):g}" for value in shown]
    texts[-1] += f" {unit}" if unit else ""
    return Markup("").join(Markup("<span>{}</span>").format(text) for text in texts)


def _summarise(values: Sequence[float], unit: str) -> str:
    array = np.asarray(values, float)
    text = f"median {np.median(array):.2f}, {array.min():.2f} to {array.max():.2f}"
    return f"{text}{f' {unit}' if unit else ''} ({len(array):,})"
