"""What crops of SID rows are like, for people: where they end around the break, and how they should."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bystander.schemas.identity import make_rng
from bystander.schemas.train_sid_config import CropSettings
from bystander.schemas.training_report import CropExample, CropFigures
from bystander.tasks.training.crops import draw_ends, end_density, label_ends
from bystander.tasks.training.sid_crops import DRAW_NAME, find_label_break

_REACH_S = 3.0
_STEP_S = 0.02


def measure_crops(
    rows: Iterable[Mapping[str, Any]],
    settings: CropSettings,
    seed: int,
    epochs: int = 1,
    examples: int = 2,
    note: str = "",
) -> CropFigures:
    """Return where crops of some epochs end, as a training with this seed draws them.

    Columns read: those of `sid_crops.CROP_COLUMNS`; of rows with a break, `audio` too where they have it: the first
    `examples` of them are shown with their crops of the first epoch.
    """
    at_s = np.linspace(-_REACH_S, _REACH_S, round(2 * _REACH_S / _STEP_S) + 1)
    density = np.zeros_like(at_s)
    from_label: list[float] = []
    from_break: list[float] = []
    positive: list[bool] = []
    shown: list[CropExample] = []
    clips = without_break = 0
    for row in rows:
        duration_s, break_s = float(row["duration_s"]), find_label_break(row, settings.shift_words).break_s
        drawn = [
            draw_ends(make_rng(seed, row["id"], DRAW_NAME, epoch), duration_s, break_s, settings)
            for epoch in range(epochs)
        ]
        ends = np.concatenate(drawn)
        if break_s is None:
            without_break += len(ends)
            continue
        clips += 1
        density += end_density(at_s + break_s, duration_s, break_s, settings)
        from_label += (ends - break_s).tolist()
        from_break += (ends - float(row["break_time_s"])).tolist()
        positive += label_ends(ends, break_s).tolist()
        if len(shown) < examples and row.get("audio") is not None:
            shown.append(_show_example(row, break_s, drawn[0].tolist()))
    return CropFigures(
        clips=clips,
        from_label_s=from_label,
        from_break_s=from_break,
        positive=positive,
        density_at_s=at_s.tolist(),
        density=(density / max(clips, 1)).tolist(),
        crops_without_break=without_break,
        examples=shown,
        note=note,
    )


def _show_example(row: Mapping[str, Any], label_break_s: float, ends_s: list[float]) -> CropExample:
    audio = row["audio"]
    return CropExample(
        name=row["id"],
        audio=audio["bytes"] if isinstance(audio, Mapping) else audio,
        words=[word for word in row["words"] or () if word["start_s"] is not None],
        break_s=float(row["break_time_s"]),
        label_break_s=label_break_s,
        ends_s=ends_s,
    )
