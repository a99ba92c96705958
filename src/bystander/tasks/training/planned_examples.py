"""Feeds planned micro-batches of an `ExampleSource` to torch's loader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset, Sampler

from bystander.tasks.training.contract import Collate, ExampleSource
from bystander.tasks.training.epoch_plan import plan_epoch

EXAMPLES_KEY = "_examples"
"""Key of a batch under which the number of its examples travels from the loader to the loss."""

Item = tuple[int, int]
"""Epoch and number of an example: the epoch goes with it into the worker processes."""


class MicroBatches(Sampler[list[Item]]):
    """The planned micro-batches of an epoch, a list of items each. Every epoch has as many.

    Nothing is read here, so what a resumed run skips costs no more than its plan.
    """

    def __init__(self, source: ExampleSource, micro_batch_size: int, seed: int, always_first: bool = False) -> None:
        """`always_first` stays at epoch 0: a held-out slice has to be the same each time."""
        self.epoch = 0
        self._always_first = always_first
        self._source = source
        self._size = micro_batch_size
        self._seed = seed
        self._count = len(self._plan(0))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[list[Item]]:
        epoch = self.epoch
        for numbers in self._plan(epoch):
            yield [(epoch, int(number)) for number in numbers]

    def set_epoch(self, epoch: int) -> None:
        self.epoch = 0 if self._always_first else epoch

    def _plan(self, epoch: int) -> Sequence[npt.NDArray[np.int64]]:
        return plan_epoch(self._source.lengths, self._source.groups, self._size, self._seed, epoch)


class PlannedExamples(Dataset[Any]):
    """The examples of a source by item.

    Accelerate tells the loader's dataset of a new epoch, however its sampler is wrapped, so it is passed on from here.
    """

    def __init__(self, source: ExampleSource, micro_batches: MicroBatches) -> None:
        self._source = source
        self._micro_batches: MicroBatches | None = micro_batches

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, item: Item) -> Any:
        return self.__getitems__([item])[0]

    def __getitems__(self, items: Sequence[Item]) -> list[Any]:
        return self._source.read([number for _, number in items], items[0][0])

    def __getstate__(self) -> dict[str, Any]:
        return {"_source": self._source, "_micro_batches": None}  # workers plan nothing

    def set_epoch(self, epoch: int) -> None:
        if self._micro_batches is not None:
            self._micro_batches.set_epoch(epoch)


@dataclass(frozen=True, slots=True)
class CountedCollate:
    """Collates examples as a job says, and adds how many there are."""

    collate: Collate

    def __call__(self, examples: list[Any]) -> dict[str, Any]:
        return {**self.collate(examples), EXAMPLES_KEY: len(examples)}
