"""What trains a detector of interruptions, by architecture. Trainers are imported only when one is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from bystander.schemas.train_sid_config import TrainSidConfig
from bystander.schemas.training_data import DataRecord, LeftOutRow
from bystander.tasks.training.contract import FitOutcome, StepRecord
from bystander.tasks.training.pick_threshold import PickedThreshold
from bystander.tasks.training.sid_crops import CropCounts


@dataclass(frozen=True, slots=True)
class SidTraining:
    """What a trainer is given."""

    config: TrainSidConfig
    folder: Path
    """On this machine, for checkpoints and the finished detector; a run that finds some goes on from them."""
    on_record: Callable[[str, StepRecord], None]
    """Is told the phase and each record as it comes."""
    on_phase: Callable[[str], None]
    """Is told in words what is done now."""


@dataclass(frozen=True, slots=True)
class TrainedSid:
    """A trained detector.

    Attributes:
        model_folder: its files, all that its engine opens.
        detector: name of the engine that opens them, as in `k3:NAME:model=FOLDER`.
        phases: history of each run of the loop, by its phase, in order.
        data: what it was trained on.
        left_out: rows that could not be used.
        picked: the threshold and what it was chosen on; None where no clip was held out.
        crops: what was drawn in the first epoch; None where no crops are drawn.
        extra: what else its report shows, JSON-ready.
    """

    model_folder: Path
    detector: str
    phases: Mapping[str, FitOutcome]
    data: DataRecord
    left_out: tuple[LeftOutRow, ...] = ()
    picked: PickedThreshold | None = None
    crops: CropCounts | None = None
    extra: Mapping[str, Any] | None = None


SidTrainer = Callable[[SidTraining], TrainedSid]

_TRAINERS: Mapping[str, tuple[str, str]] = {
    "sid_lm": ("sid_lm", "train_sid_lm"),
    "recurrent": ("recurrent", "train_recurrent"),
}
"""Module and function of each architecture's trainer."""


def find_sid_trainer(architecture: str) -> SidTrainer:
    """Return what trains an architecture."""
    module, name = _TRAINERS[architecture]
    trainer: SidTrainer = getattr(import_module(f"bystander.tasks.training.{module}"), name)
    return trainer
