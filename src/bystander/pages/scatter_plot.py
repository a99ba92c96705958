"""The two-dimensional picture of a system's embeddings, coloured by who speaks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from bystander.schemas.evaluation_scores import Projection

_SIDE = 600
_MARGIN = 20
_FEW_POINTS = 600
_GROUPS = (
    ("one_speaker", "one speaker", "dot"),
    ("hard_negative", "hard negative", "box"),
    ("two_speakers", "two speakers", "cross"),
)


def draw_projection(projection: Projection, with_legend: bool = True) -> Markup:
    """Return the picture as a `figure`. Both axes have the same scale; they have no unit.

    Without a legend of its own, several pictures share that of `show_groups`.
    """
    points = np.column_stack([np.asarray(projection.x, float), np.asarray(projection.y, float)]).reshape(-1, 2)
    groups = np.asarray(projection.groups, dtype=str)
    low, high = (points.min(axis=0), points.max(axis=0)) if len(points) else (np.zeros(2), np.zeros(2))
    scale = (_SIDE - 2 * _MARGIN) / max(float((high - low).max()), 1e-9)
    placed = (points - (low + high) / 2) * scale + _SIDE / 2
    radius = 5.0 if len(points) <= _FEW_POINTS else 2.5
    present = [(key, name, shape) for key, name, shape in _GROUPS if (groups == key).any()]
    paths = Markup("").join(
        Markup('<path class="point {}" stroke-width="{:g}" d="{}"/>').format(
            key, 2 * radius if shape != "cross" else radius / 2, _draw_points(placed[groups == key], shape, radius)
        )
        for key, _, shape in present
    )
    counts = [f"{name} {int((groups == key).sum()):,}" for key, name, _ in present]
    keys = [(key, shape, count) for (key, _, shape), count in zip(present, counts, strict=True)]
    return Markup(
        '<figure class="chart"><figcaption>{system} <span class="stat">t-SNE, perplexity {perplexity:g}</span>'
        '</figcaption><svg class="scatter" viewBox="0 0 {side} {side}" role="img" aria-label="{label}">{paths}</svg>'
        "{legend}</figure>"
    ).format(
        system=projection.system,
        perplexity=round(projection.perplexity, 1),
        side=_SIDE,
        label=f"Embeddings of {projection.system} in two dimensions: {', '.join(counts) or 'no points'}",
        paths=paths,
        legend=_draw_legend(keys) if with_legend else "",
    )


def show_groups(projections: Sequence[Projection]) -> Markup:
    """Return the legend of all groups that any of the pictures has."""
    there = {group for projection in projections for group in projection.groups}
    return _draw_legend([(key, shape, name) for key, name, shape in _GROUPS if key in there])


def _draw_legend(keys: Sequence[tuple[str, str, str]]) -> Markup:
    return Markup('<ul class="series">{}</ul>').format(
        Markup("").join(
            Markup('<li><svg viewBox="0 0 14 14" aria-hidden="true">{}</svg>{}</li>').format(
                _draw_key(key, shape), text
            )
            for key, shape, text in keys
        )
    )


def _draw_key(key: str, shape: str) -> Markup:
    return Markup('<path class="point {}" stroke-width="{}" d="{}"/>').format(
        key, 8 if shape != "cross" else 2, _draw_points(np.array([[7.0, 7.0]]), shape, 4)
    )


def _draw_points(points: np.ndarray, shape: str, radius: float) -> str:
    """Return a path: lines without length, which the style sheet ends round or square, or crosses."""
    return "".join(_draw_point(x, y, shape, radius) for x, y in points)


def _draw_point(x: float, y: float, shape: str, radius: float) -> str:
    if shape != "cross":
        return f"M{x:.1f} {y:.1f}h0"
    arm = radius * 0.85
    return f"M{x - arm:.1f} {y - arm:.1f}l{2 * arm:.1f} {2 * arm:.1f}m0 {-2 * arm:.1f}l{-2 * arm:.1f} {2 * arm:.1f}"
