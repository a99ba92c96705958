"""Rows of SID builds as they are, for what is counted and measured beside the training."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bystander.schemas.train_sid_config import TrainSidConfig
from bystander.tasks.training.open_rows import TrainingRows, open_sid_rows
from bystander.tasks.training.shard_examples import ShardExamples
from bystander.tasks.training.sid_crops import CROP_COLUMNS

MAX_THRESHOLD_CLIPS = 500
"""Held-out clips that a threshold is chosen on, evenly taken: each is heard chunk by chunk."""
_BATCH_ROWS = 256


def open_light_rows(config: TrainSidConfig, columns: Sequence[str]) -> TrainingRows:
    """Open the rows of a run as mappings of these columns; `audio` gives the encoded bytes.

    Raises: as `open_sid_rows`.
    """
    return open_sid_rows(config.data, keep_row, columns, rate=None, seed=config.seed, held_out=config.held_out.share)


def keep_row(row: dict[str, Any], _: np.random.Generator) -> dict[str, Any]:
    """Return a row as it is."""
    return row


def iterate_rows(source: ShardExamples) -> Iterator[Mapping[str, Any]]:
    """Yield all rows of a source."""
    for start in range(0, len(source), _BATCH_ROWS):
        yield from source.read(range(start, min(start + _BATCH_ROWS, len(source))), 0)


def read_held_out(config: TrainSidConfig, limit: int = MAX_THRESHOLD_CLIPS) -> Iterator[Mapping[str, Any]]:
    """Yield held-out rows with their sound, at most so many: CROP_COLUMNS and `audio`, encoded bytes."""
    source = open_light_rows(config, ("audio", *CROP_COLUMNS)).held_out
    if source is None:
        return
    for number in np.linspace(0, len(source) - 1, min(len(source), limit)).round().astype(int):
        yield from source.read([int(number)], 0)


def write_json(path: Path, value: Any) -> None:
    """Write a value as readable JSON."""
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", "utf-8")
