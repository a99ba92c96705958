"""`report.html` of a training run: one file that shows, offline, what was trained on what and how it went."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from bystander.pages.crop_charts import CropSection, draw_crops
from bystander.pages.detector_charts import BenchSection, draw_benches, draw_thresholds
from bystander.pages.line_plot import Frame, Line, Mark, draw_lines
from bystander.pages.mixture_charts import MixtureSection, draw_mixtures
from bystander.pages.page_templates import render_page
from bystander.schemas.evaluation_table import TEST_TITLES, show_p
from bystander.schemas.training_report import PhaseCurves, StepFigures, TrainingReport

_MOST_STEPS = 40
"""Rows of the table under the curves."""


@dataclass(frozen=True, slots=True)
class _Phase:
    name: str
    charts: list[Markup]
    steps: list[StepFigures]


def render_training_report(data: TrainingReport) -> str:
    """Return the page. It loads nothing from anywhere; the same data give the same page."""
    left_out = data.data.left_out if data.data else {}
    crops: CropSection | None = draw_crops(data.crops) if data.crops else None
    benches: list[BenchSection] = draw_benches(data.benches)
    mixtures: MixtureSection | None = draw_mixtures(data.mixtures) if data.mixtures else None
    return render_page(
        "training_report.html.j2",
        ("evaluation_report.css", "sid_report.css", "training_report.css"),
        data=data,
        tiles=data.tiles or _count_tiles(data),
        sections=_list_sections(data, left_out),
        left_out=left_out,
        phases=[_draw_phase(phase) for phase in data.phases if phase.history],
        crops=crops,
        thresholds=draw_thresholds(data.threshold) if data.threshold else [],
        benches=benches,
        mixtures=mixtures,
        settings=list(_flatten(data.settings)),
        show=_show_figure,
        show_p=show_p,
        tests=TEST_TITLES,
    )


def _list_sections(data: TrainingReport, left_out: Mapping[str, int]) -> dict[str, str]:
    found: dict[str, tuple[str, bool]] = {
        "figures": ("Figures", bool(data.figures)),
        "detectors": ("Detectors", bool(data.benches)),
        "mixtures": ("Mixtures", data.mixtures is not None),
        "data": ("Data", bool(data.data or left_out)),
        "curves": ("Curves", any(phase.history for phase in data.phases)),
        "crops": ("Crops", data.crops is not None),
        "threshold": ("Threshold", data.threshold is not None),
        "settings": ("Settings", bool(data.settings)),
    }
    return {anchor: name for anchor, (name, is_there) in found.items() if is_there}


def _count_tiles(data: TrainingReport) -> list[tuple[str, str]]:
    tiles = [("rows trained on", f"{sum(part.rows for part in data.data.parts.values()):,}")] if data.data else []
    if data.mixtures:
        tiles += [("models trained", f"{len(data.mixtures.runs):,}"), ("seeds", f"{len(data.mixtures.seeds):,}")]
    for phase in [phase for phase in data.phases if phase.history][-1:]:
        of = f"{phase.name}, " if len(data.phases) > 1 else ""
        tiles.append((f"{of}steps", f"{phase.history[-1].step:,}"))
        for name, losses in (
            ("last loss", _list_told(phase, "loss")),
            ("held-out loss", _list_told(phase, "held_out_loss")),
        ):
            if losses:
                tiles.append((f"{of}{name}", _show_figure(losses[-1])))
    return tiles


def _list_told(phase: PhaseCurves, figure: str) -> list[float]:
    return [value for one in phase.history if (value := getattr(one, figure)) is not None]


def _draw_phase(phase: PhaseCurves) -> _Phase:
    history = phase.history
    resumed = [Mark(f"resumed at step {', '.join(map(str, phase.resumed_from))}", phase.resumed_from)]
    marks = resumed if phase.resumed_from else []
    span = (0.0, float(max(one.step for one in history)))
    charts = [
        draw_lines(title, Frame("step", whole_x=True, x_span=span), lines, marks=marks)
        for title, lines in (
            ("Loss", [_follow(history, "loss", "trained on", 0), _follow(history, "held_out_loss", "held out", 1)]),
            ("Learning rate", [_follow(history, "learning_rate", "", 0)]),
            ("Gradient norm", [_follow(history, "gradient_norm", "", 0)]),
        )
        if any(len(line.x) for line in lines)
    ]
    return _Phase(phase.name, charts, _pick(history))


def _follow(history: Sequence[StepFigures], figure: str, name: str, series: int) -> Line:
    told = [(one.step, value) for one in history if (value := getattr(one, figure)) is not None]
    is_few = figure == "held_out_loss" and len(told) <= _MOST_STEPS
    return Line(name, [step for step, _ in told], [value for _, value in told], series, dotted=is_few)


def _pick(history: Sequence[StepFigures]) -> list[StepFigures]:
    """Return records evenly, the first and the last among them, and one a step where two were told of it."""
    if len(history) <= _MOST_STEPS:
        return list(history)
    at = sorted({round(i * (len(history) - 1) / (_MOST_STEPS - 1)) for i in range(_MOST_STEPS)})
    return [history[i] for i in at]


def _flatten(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{before}{name}.")
        else:
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            yield f"{before}{name}", shown


def _show_figure(value: float | None) -> str:
    """Return a figure of any size with four significant digits or fewer."""
    return "–" if value is None else f"{value:.4g}"
