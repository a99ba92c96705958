"""A training curve for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bystander.tasks.training.contract import StepRecord

LOSS = "·"
HELD_OUT = "o"


def draw_curve(records: Sequence[StepRecord], width: int = 60, height: int = 12) -> str:
    """Return the losses of a run over its steps as lines of text; empty where none was measured.

    A column shows the mean of the losses that fall into it, as `·`, and over them the held-out ones, as `o`.

    Args:
        records: of the run.
        width: columns of the plot, without its axis.
        height: lines of the plot, without its axis.
    """
    series = {
        LOSS: [(record.step, record.loss) for record in records if record.loss is not None],
        HELD_OUT: [(record.step, record.held_out_loss) for record in records if record.held_out_loss is not None],
    }
    last = max((step for points in series.values() for step, _ in points), default=0)
    columns = {mark: _average(points, last, width) for mark, points in series.items() if points}
    if not columns:
        return ""
    values = np.concatenate([[value for value in column if np.isfinite(value)] for column in columns.values()])
    low, high = float(values.min()), float(values.max())
    span = high - low or 1.0
    grid = [[" "] * width for _ in range(height)]
    for mark, column in columns.items():
        for at in np.flatnonzero(np.isfinite(column)):
            grid[round((high - float(column[at])) / span * (height - 1))][at] = mark
    edges = {0: f"{high:.3g}", height - 1: f"{low:.3g}"}
    margin = max(map(len, edges.values()))
    lines = [f"{edges.get(at, ''):>{margin}} |{''.join(line).rstrip()}" for at, line in enumerate(grid)]
    steps = f"step {last}"
    lines += [f"{'':>{margin}} +{'-' * width}", f"{'':>{margin}}  0{steps:>{width - 1}}"]
    shown = {LOSS: "loss", HELD_OUT: "held-out loss"}
    lines.append(f"{'':>{margin}}  " + ", ".join(f"{mark} {shown[mark]}" for mark in columns))
    return "\n".join(lines) + "\n"


def _average(points: Sequence[tuple[int, float]], last: int, width: int) -> npt.NDArray[np.float64]:
    """Return the mean in each column, shape (width,); not a number where there is none."""
    at = np.array([step * (width - 1) // max(last, 1) for step, _ in points])
    sums = np.bincount(at, [value for _, value in points], width)
    counts = np.bincount(at, minlength=width)
    return np.where(counts, sums / np.maximum(counts, 1), np.nan)
