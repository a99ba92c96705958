"""Whether a trained detector is heard by the rule that its threshold was chosen for."""

from __future__ import annotations

import json
from pathlib import Path

from bystander.schemas.detector_configs import (
    DetectorConfig,
    KConsecutiveConfig,
    RecurrentDetectorConfig,
    SidLmDetectorConfig,
)
from bystander.tasks.engines.recurrent_detector import CONFIG_NAME, find_recurrent_folder


def remark_other_k(config: DetectorConfig) -> str | None:
    """Return a sentence for a person where a trained detector's K is not the one of its training, else None.

    A threshold that is given by hand was chosen by whoever gave it. A folder that says no K is left to the engine.
    """
    k, inner = (config.k, config.of) if isinstance(config, KConsecutiveConfig) else (1, config)
    if not isinstance(inner, RecurrentDetectorConfig | SidLmDetectorConfig) or inner.threshold is not None:
        return None
    try:
        told = json.loads((find_recurrent_folder(Path(inner.model).expanduser()) / CONFIG_NAME).read_bytes())
        trained = int(told["k"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if trained == k:
        return None
    right = f"{'' if trained == 1 else f'k{trained}:'}{inner.engine}:model={inner.model}"
    chunks = "the first positive chunk" if k == 1 else f"{k} positive chunks in a row"
    return f"stops after {chunks}, but its threshold was chosen for {trained}; it is meant to be heard as {right}"
