"""A model, examples and a run that are small: a classifier with dropout over noisy vectors."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from bystander.schemas.identity import make_rng
from bystander.schemas.training_config import Checkpoints, HeldOutSlice, Optimisation, TrainingConfig
from bystander.tasks.training.contract import FitJob

WIDTH = 8
CLASSES = 3


class TinyConfig(TrainingConfig):
    NAME_PREFIX: ClassVar[str] = "tiny"


class TinySource:
    """Vectors around their class's centre; the noise on them is drawn anew each epoch."""

    def __init__(self, count: int, base: int = 0) -> None:
        self.numbers_read: list[tuple[int, int]] = []
        self._count = count
        self._base = base

    def __len__(self) -> int:
        return self._count

    @property
    def lengths(self) -> npt.NDArray[np.float64]:
        return np.asarray(1.0 + np.arange(self._count) % 5, np.float64)

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        return np.arange(self._count) // 6

    def read(self, numbers: Sequence[int], epoch: int) -> list[Any]:
        self.numbers_read += [(epoch, number) for number in numbers]
        return [self._draw(self._base + number, epoch) for number in numbers]

    def _draw(self, number: int, epoch: int) -> tuple[npt.NDArray[np.float32], int]:
        label = number % CLASSES
        noise = make_rng(0, str(number), "tiny", epoch).standard_normal(WIDTH)
        return (np.eye(WIDTH)[label] * 3 + noise).astype(np.float32), label


class TinyModel(torch.nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Two layers and a dropout; the first layer's weights are shared with a third, as in tied embeddings."""

    def __init__(self, dropout: float = 0.2) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.inner = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.again = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.again.weight = self.inner.weight
        self.dropout = torch.nn.Dropout(dropout)
        self.head = torch.nn.Linear(WIDTH, CLASSES)

    def forward(self, vectors: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = self.again(self.dropout(torch.tanh(self.inner(vectors))))
        logits = self.head(hidden)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def collate_tiny(examples: list[Any]) -> dict[str, Any]:
    return {
        "vectors": torch.tensor(np.stack([vector for vector, _ in examples])),
        "labels": torch.tensor([label for _, label in examples]),
    }


def make_job(folder: Path, model: torch.nn.Module | None = None, **changes: Any) -> FitJob:
    """Return a job over 34 examples: 9 steps an epoch, the last of one half-full micro-batch."""
    settings: dict[str, Any] = {
        "optimisation": Optimisation(epochs=2.5, learning_rate=1e-2, batch_size=4, micro_batch_size=2),
        "checkpoints": Checkpoints(every_steps=4, keep=2),
        "held_out": HeldOutSlice(every_steps=5),
        "device": "cpu",
        "seed": 3,
    }
    config = TinyConfig(**{**settings, **changes})
    return FitJob(config, model or TinyModel(), TinySource(34), TinySource(7, base=1000), collate_tiny, folder)


def run_until_killed(folder: Path, mode: str, workers: int) -> None:
    """Run a job in this process, which kills itself as `mode` says: `step:N`, or `saving:N`, in the midst of that."""
    from bystander.tasks.training import planned_trainer
    from bystander.tasks.training.checkpoints import mark_whole
    from bystander.tasks.training.contract import StepRecord
    from bystander.tasks.training.fit import fit

    kind, _, at = mode.partition(":")

    def die(record: StepRecord) -> None:
        if kind == "step" and record.step == int(at):
            os.kill(os.getpid(), signal.SIGKILL)

    def die_saving(checkpoint: Any) -> None:
        if kind == "saving" and checkpoint.step == int(at):
            (checkpoint.folder / "optimizer.pt").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        mark_whole(checkpoint)

    vars(planned_trainer)["mark_whole"] = die_saving
    fit(make_job(folder, loader_workers=workers), on_record=die)


def main(folder: str, *kills: str) -> None:
    """Have a process killed for each of `kills`, a mode and a number of workers as `step:9/0`; print how each ended."""
    import_module("bystander.tasks.training.planned_trainer")  # once for all of them
    torch.set_num_threads(1)
    for kill in kills:
        child = os.fork()
        if not child:
            mode, _, workers = kill.partition("/")
            run_until_killed(Path(folder) / mode, mode, int(workers))
            os._exit(0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
