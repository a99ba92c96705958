"""What a trainer asks of data and model, so that one loop of `transformers` trains them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bystander.schemas.training_config import TrainingConfig


class ExampleSource(Protocol):
    """Examples by number, from 0, read when they are asked for. It can be pickled into worker processes."""

    def __len__(self) -> int: ...

    @property
    def lengths(self) -> npt.NDArray[np.float64]:
        """Shape (examples,): relative sizes, seconds mostly; what is alike goes into one micro-batch."""
        ...

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        """Shape (examples,): what is read from storage at once, as a row group is; a plan keeps it together."""
        ...

    def read(self, numbers: Sequence[int], epoch: int) -> list[Any]:
        """Return the examples of these numbers, in order. What is random hangs on (seed, row id, epoch) alone.

        Raises:
            CorruptPartError: a shard is damaged.
            StorageError: a shard cannot be read.
        """
        ...


Collate = Callable[[list[Any]], dict[str, Any]]
"""Examples to the keyword arguments of the model's `forward`, tensors mostly. It can be pickled."""


@dataclass(frozen=True, slots=True)
class FitJob:
    """All that one run of the trainer needs. `model.forward(**collate(examples))` returns a mapping with `loss`."""

    config: TrainingConfig
    model: Any
    """A torch module; parameters that do not ask for gradients stay as they are."""
    train: ExampleSource
    held_out: ExampleSource | None
    collate: Collate
    folder: Path
    """Local folder of its own for checkpoints; a run that finds some goes on from the last whole one."""
    phase: str = "training"
    """Names the run in what is told of it, where there are several, as `alignment`."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What was told at a step; None where that was not measured there."""

    step: int
    epoch: float
    loss: float | None = None
    """Mean over the steps since the record before."""
    held_out_loss: float | None = None
    learning_rate: float | None = None
    gradient_norm: float | None = None


@dataclass(frozen=True, slots=True)
class FitOutcome:
    """A finished run: `model` of the job has its weights now."""

    steps: int
    history: tuple[StepRecord, ...]
    resumed_from: tuple[int, ...] = ()
    """Steps at which it was taken up again, in order."""
