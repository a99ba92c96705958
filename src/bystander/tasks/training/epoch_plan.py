"""Stand-in until branch `rows` has its own."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bystander.schemas.identity import make_rng


def plan_epoch(
    lengths: npt.NDArray[np.float64], groups: npt.NDArray[np.int64], micro_batch_size: int, seed: int, epoch: int
) -> list[list[int]]:
    """Return the micro-batches of an epoch."""
    order = make_rng(seed, str(epoch), "epoch_plan").permutation(len(lengths)).tolist()
    return [order[at : at + micro_batch_size] for at in range(0, len(order), micro_batch_size)]
