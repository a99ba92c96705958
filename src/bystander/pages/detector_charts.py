"""Detectors beside each other on a bench, and a trained one by the threshold of its probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from bystander.pages.interval_plot import PlotDot, PlotRow, PlotScale, draw_intervals
from bystander.pages.line_plot import Frame, Line, Mark, draw_lines
from bystander.pages.sid_charts import round_up
from bystander.schemas.evaluation_scores import Estimate
from bystander.schemas.training_report import DetectorBench, DetectorRow, ThresholdChoice

_KINDS = ("trained", "voice activity detector", "other")


@dataclass(frozen=True, slots=True)
class DetectorLine:
    """A line of the table."""

    row: DetectorRow
    times: float | None
    """How many times better than the best VAD it is in APT."""
    best: frozenset[str]
    """Figures in which no other detector is better: `fir`, `irl_s`, `apt_s`."""


@dataclass(frozen=True, slots=True)
class BenchSection:
    """One bench: its table, its plots, and what it comes to in a sentence."""

    bench: DetectorBench
    verdict: str
    lines: list[DetectorLine]
    charts: list[Markup]


def draw_benches(benches: Sequence[DetectorBench]) -> list[BenchSection]:
    """Return a section a bench."""
    return [_draw_bench(bench) for bench in benches if bench.rows]


def draw_thresholds(choice: ThresholdChoice) -> list[Markup]:
    """Return a chart each of APT, FIR and IRL over the threshold, with the one that was picked."""
    marks = [Mark(f"picked, {choice.picked:.3g}", [choice.picked], "picked")]
    at_all = [one.threshold for one in choice.scores]
    span = (min(at_all), max(at_all)) if at_all else None
    charts = []
    for title, figure, unit in (("APT", "apt_s", "s"), ("FIR", "fir", ""), ("IRL", "irl_s", "s")):
        told = [(one.threshold, value) for one in choice.scores if (value := getattr(one, figure)) is not None]
        if not told:
            continue
        line = Line("", [at for at, _ in told], [value for _, value in told], 0, dotted=len(told) <= 40)
        charts.append(
            draw_lines(title, Frame("threshold", unit, x_span=span, stat="↓ lower is better"), [line], marks=marks)
        )
    return charts


def find_best_vad(rows: Sequence[DetectorRow]) -> DetectorRow | None:
    """Return the VAD of the least APT; None where there is none with an APT."""
    vads = [row for row in rows if row.is_vad and row.apt_s.mean is not None]
    return min(vads, key=lambda row: row.apt_s.mean or 0.0, default=None)


def _draw_bench(bench: DetectorBench) -> BenchSection:
    best = find_best_vad(bench.rows)
    ordered = sorted(bench.rows, key=lambda row: (row.apt_s.mean is None, row.apt_s.mean))
    lines = [
        DetectorLine(
            row, _compare(best, row), frozenset(f for f in ("fir", "irl_s", "apt_s") if _leads(row, f, ordered))
        )
        for row in ordered
    ]
    charts = []
    for title, figure in (("APT, seconds", "apt_s"), ("FIR", "fir"), ("IRL, seconds", "irl_s")):
        estimates = [(row, _get(row, figure)) for row in ordered]
        top = max((one.high or one.mean or 0.0 for _, one in estimates), default=0.0)
        scale = PlotScale(0, 1 if figure == "fir" else round_up(top), higher_is_better=False)
        rows = [
            PlotRow(row.name, [PlotDot(row.name, _find_kind(row), one)])
            for row, one in estimates
            if one.mean is not None
        ]
        charts.append(draw_intervals(title, scale, rows))
    return BenchSection(bench, _conclude(bench, best, ordered), lines, charts)


def _conclude(bench: DetectorBench, best: DetectorRow | None, ordered: Sequence[DetectorRow]) -> str:
    trained = next((row for row in ordered if row.is_trained and row.apt_s.mean is not None), None)
    if trained is None or best is None:
        return ""
    times = _compare(best, trained)
    text = f"APT of {trained.name}: {trained.apt_s.mean:.3f} s. Of the best VAD, {best.name}: {best.apt_s.mean:.3f} s"
    if times is None:
        return f"{text}."
    goal = ""
    if bench.goal is not None:
        goal = f" The goal, {bench.goal:g} times, is {'reached' if times >= bench.goal else 'missed'}."
    return f"{text}, {times:.2f} times as much.{goal}"


def _compare(best: DetectorRow | None, row: DetectorRow) -> float | None:
    if best is None or best.apt_s.mean is None or not row.apt_s.mean:
        return None
    return best.apt_s.mean / row.apt_s.mean


def _leads(row: DetectorRow, figure: str, rows: Sequence[DetectorRow]) -> bool:
    own = _get(row, figure).mean
    return own is not None and all(own <= (other if (other := _get(o, figure).mean) is not None else own) for o in rows)


def _get(row: DetectorRow, figure: str) -> Estimate:
    found: Estimate = getattr(row, figure)
    return found


def _find_kind(row: DetectorRow) -> int:
    return 0 if row.is_trained else 1 if row.is_vad else 7
