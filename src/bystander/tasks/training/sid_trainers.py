"""What trains a detector of interruptions, by architecture. Trainers are imported only when one is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol

from bystander.schemas.train_sid_config import TrainSidConfig
from bystander.tasks.training.contract import FitJob
from bystander.tasks.training.trained import Trained, TrainedPhase, TrainingInputs

MODEL_FOLDER = "model"
"""Folder of a run that its detector's engine opens."""


@dataclass(frozen=True, slots=True)
class SidDesk:
    """Where a detector is trained.

    Attributes:
        output: empty folder of this machine for the files to publish; those of the detector go into `MODEL_FOLDER`.
        work: folder of this machine that outlives a stop.
        fit: runs the loop over a job, with checkpoints in a folder that it chooses by the job's phase.
        on_phase: is told in words what is done now.
    """

    output: Path
    work: Path
    fit: Callable[[FitJob], TrainedPhase]
    on_phase: Callable[[str], None]


class SidTrainer(Protocol):
    """Trains one architecture. It is made from a `TrainSidConfig`, which opens its data and no model."""

    @property
    def inputs(self) -> TrainingInputs:
        """What it is trained on, and from."""
        ...

    def train(self, desk: SidDesk) -> Trained:
        """Train, and write the detector with its threshold; a phase that was stopped goes on from its checkpoints."""
        ...


_TRAINERS: Mapping[str, tuple[str, str]] = {
    "sid_lm": ("sid_lm", "SidLmTrainer"),
    "recurrent": ("recurrent", "RecurrentTrainer"),
}
"""Module and class of each architecture's trainer."""


def open_sid_trainer(config: TrainSidConfig) -> SidTrainer:
    """Return what trains the architecture that a configuration asks for, with its data opened.

    Raises:
        ConfigError: there is no row to train on.
        BuildError: what is named is no finished build of SID rows, or a shard is not as its manifest says.
        StorageError: a shard cannot be read.
    """
    module, name = _TRAINERS[config.model.architecture]
    trainer: SidTrainer = getattr(import_module(f"bystander.tasks.training.{module}"), name)(config)
    return trainer


def describe_usage(config: TrainSidConfig) -> str:
    """Return the card's words on how the detector is heard: the exact command, with the K of the configuration."""
    engine = config.model.architecture
    rule = "at the first positive chunk" if config.k == 1 else f"after {config.k} positive chunks in a row"
    return (
        f"Its threshold was chosen for this rule: stop {rule}. In its folder:\n\n"
        "```sh\n"
        f"bystander evaluate sid --bench BENCH --detectors {config.training_name}=k{config.k}:{engine}:model=.\n"
        "```"
    )
