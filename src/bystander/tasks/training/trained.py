"""What a trainer hands over to be published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bystander.schemas.training_config import Optimisation
from bystander.schemas.training_data import DataRecord, LeftOutRow
from bystander.schemas.training_report import ReportSections
from bystander.storage.training_manifest import BaseModelInfo
from bystander.tasks.training.contract import FitOutcome


@dataclass(frozen=True, slots=True)
class TrainingInputs:
    """What a run is made from, known before a weight is moved."""

    data: DataRecord
    base_model: BaseModelInfo | None = None
    left_out: tuple[LeftOutRow, ...] = ()
    """Rows that the index left out: those that `data` counts."""


@dataclass(frozen=True, slots=True)
class TrainedPhase:
    """One run of the trainer that came to its end."""

    phase: str
    optimisation: Optimisation
    examples: int
    """Of an epoch."""
    held_out: int
    outcome: FitOutcome


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained model.

    All files below `folder` are published under their paths there. `README.md`, `report.html` and `manifest.json` are
    written over them, and `history/<phase>.jsonl` beside them.
    """

    folder: Path
    phases: tuple[TrainedPhase, ...]
    figures: Mapping[str, Any] = field(default_factory=dict)
    """What was measured of the trained model, by name: JSON values."""
    notes: tuple[str, ...] = ()
    """Sentences for a person, on what the model can and cannot."""
    usage: str = ""
    """Markdown of the card: how it is loaded and evaluated."""
    sections: ReportSections = field(default_factory=ReportSections)
    """What its page shows besides data and curves."""
    left_out: tuple[LeftOutRow, ...] = ()
    """Rows that were found unusable when they were read; others took their place."""
