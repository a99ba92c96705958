"""What the page of a detector's training shows besides its curves: its crops, and its threshold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from bystander.schemas.train_sid_config import TrainSidConfig
from bystander.schemas.training_report import ReportSections, ThresholdChoice
from bystander.tasks.training.crop_figures import measure_crops
from bystander.tasks.training.pick_threshold import PickedThreshold
from bystander.tasks.training.shard_examples import ShardExamples
from bystander.tasks.training.sid_crops import CROP_COLUMNS
from bystander.tasks.training.sid_rows import open_light_rows

MOST_ROWS = 2000
"""Rows whose crops are shown, evenly taken."""
_EXAMPLES = 2


def describe_sections(config: TrainSidConfig, picked: PickedThreshold | None, crop_note: str = "") -> ReportSections:
    """Return the sections of a run's page.

    Args:
        config: of the run.
        picked: its threshold, if one was chosen.
        crop_note: how its trainer uses crops, if otherwise than drawn.

    Raises: as `open_sid_rows`.
    """
    light = open_light_rows(config, CROP_COLUMNS).train
    whole = open_light_rows(config, ("audio", *CROP_COLUMNS)).train
    choice = None if picked is None else ThresholdChoice(picked.clips, picked.curve, picked.threshold)
    return ReportSections(
        crops=measure_crops(_read(light, whole), config.crops, config.seed, examples=_EXAMPLES, note=crop_note),
        threshold=choice,
    )


def _read(light: ShardExamples, whole: ShardExamples) -> Iterator[Mapping[str, Any]]:
    """Yield rows, the first ones with a break with their sound."""
    left = _EXAMPLES
    for number in np.linspace(0, len(light) - 1, min(len(light), MOST_ROWS)).round().astype(int):
        rows = light.read([int(number)], 0)
        if left and rows and not rows[0]["total_nonbreak"]:
            left -= 1
            rows = whole.read([int(number)], 0)
        yield from rows
