"""Which rows an epoch has, where not each is seen once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bystander.schemas.identity import make_rng

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowDraws:
    """The examples of an epoch, as many each time; each stands for one row, or for several that take turns.

    Rows that take turns lie together in storage and are of like length, so that plans hold whoever's turn it is. After
    as many epochs as there are of them, each was seen once.
    """

    rows: Numbers
    """The rows of all examples, one example after another."""
    starts: Numbers
    """Shape (examples,): where an example's rows begin in `rows`."""
    counts: Numbers
    """Shape (examples,): how many take turns."""
    shifts: Numbers
    """Shape (examples,): whose turn it is in epoch 0."""
    copies: Numbers
    """Shape (examples,): 0 for the first time that a row is seen in an epoch, 1 for the second, ..."""

    def __len__(self) -> int:
        return len(self.starts)

    def pick(self, numbers: Numbers, epoch: int) -> Numbers:
        """Return the rows that examples stand for in an epoch."""
        picked: Numbers = self.rows[self.starts[numbers] + (self.shifts[numbers] + epoch) % self.counts[numbers]]
        return picked

    def average(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the mean of a value of rows over those of each example, shape (examples,)."""
        if not len(self):
            return np.empty(0)
        return np.asarray(np.add.reduceat(values[self.rows], self.starts) / self.counts, float)


def draw_once(rows: Numbers) -> RowDraws:
    """Return draws of each row once an epoch."""
    zeros = np.zeros(len(rows), np.int64)
    return RowDraws(np.asarray(rows, np.int64), np.arange(len(rows)), zeros + 1, zeros, zeros)


def draw_rows(rows: Numbers, proportion: float, seed: int, name: str) -> RowDraws:
    """Return draws of rows that are seen `proportion` times an epoch, on average.

    Args:
        rows: in the order of storage, like lengths together within what is read at once.
        proportion: 2 for each row twice an epoch, 0.5 for half of the rows, another half in the next epoch.
        seed: of the run.
        name: tells these rows from others of the run.
    """
    times = int(proportion)
    draws = [_copy(draw_once(rows), copy) for copy in range(times)]
    examples = round(len(rows) * (proportion - times))
    if examples:
        rng = make_rng(seed, name, "draw_rows")
        starts = np.floor((np.arange(examples) + rng.random()) * len(rows) / examples).astype(np.int64)
        starts[0] = 0
        counts = np.diff([*starts, len(rows)])
        shifts = rng.integers(0, counts)
        draws.append(RowDraws(np.asarray(rows, np.int64), starts, counts, shifts, np.full(examples, times)))
    return join_draws(draws)


def join_draws(draws: list[RowDraws]) -> RowDraws:
    """Return the examples of several draws, one after another."""
    if not draws:
        return draw_once(np.empty(0, np.int64))
    offsets = np.cumsum([0, *(len(draw.rows) for draw in draws[:-1])])
    starts = [draw.starts + offset for draw, offset in zip(draws, offsets, strict=True)]
    return RowDraws(
        np.concatenate([draw.rows for draw in draws]),
        np.concatenate(starts),
        *(np.concatenate([getattr(draw, name) for draw in draws]) for name in ("counts", "shifts", "copies")),
    )


def _copy(draws: RowDraws, copy: int) -> RowDraws:
    return RowDraws(draws.rows, draws.starts, draws.counts, draws.shifts, draws.copies + copy)
