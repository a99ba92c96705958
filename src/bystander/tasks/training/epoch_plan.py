"""The order in which an epoch's rows are seen: micro-batches of like lengths, read almost in the order of storage.

Groups of rows, as row groups of Parquet are, come in random order. A few of them make a pool, whose rows are sorted by
length and cut into micro-batches, which come in random order again. `LANES` pools are open at once and take turns: so
neighbouring micro-batches come from many groups, and a reader that gets each second or fourth micro-batch reads each
group alone, with no other reader. The plan is made of numbers alone, so a run that goes on from a position reads
nothing of what was before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bystander.schemas.identity import make_rng

LANES = 4
"""Pools that are open at once, at most. It is fixed, so that the order does not hang on how many read."""
POOL_ROWS = 400
"""A pool has about so many rows, or `POOL_BATCHES` micro-batches if that is more."""
POOL_BATCHES = 32

Numbers = npt.NDArray[np.int64]


def plan_epoch(
    lengths: npt.NDArray[np.float64],
    groups: Numbers,
    micro_batch_size: int,
    seed: int,
    epoch: int,
    *,
    keep_last: bool = True,
    bucketed: bool = True,
) -> list[Numbers]:
    """Return the micro-batches of an epoch: each row's number once, but for a short rest that is not kept.

    All micro-batches are full but the last. The same arguments give the same plan.

    Args:
        lengths: shape (rows,): relative sizes.
        groups: shape (rows,): what is read at once.
        micro_batch_size: rows of a micro-batch.
        seed: of the run.
        epoch: from 0.
        keep_last: whether the last micro-batch is there where it is short.
        bucketed: whether rows of like lengths come together; without, at random within a pool.
    """
    rng = make_rng(seed, "epoch", "epoch_plan", epoch)
    if not len(lengths):
        return []
    sizes = np.asarray(lengths, float) if bucketed else rng.random(len(lengths))
    least = max(POOL_ROWS, POOL_BATCHES * micro_batch_size)
    pools = _make_pools(np.asarray(groups), least, rng)
    lanes = min(LANES, len(pools))
    while lanes > 1 and lanes * len(lengths) / len(pools) > 1.5 * LANES * least:
        lanes //= 2  # a single group is a big pool: fewer are open at once, so that they stay in memory
    waiting: list[deque[Numbers]] = [deque() for _ in range(lanes)]
    carried = [np.empty(0, np.int64) for _ in range(lanes)]
    batches: list[Numbers] = []
    while True:
        for lane in range(lanes):
            while pools and not waiting[lane]:
                rows = np.concatenate([carried[lane], pools.popleft()])
                whole = len(rows) // micro_batch_size * micro_batch_size
                waiting[lane].extend(_cut(rows[:whole], sizes, micro_batch_size, rng))
                carried[lane] = rows[whole:]  # of the pool's last group, which is at hand in the next pool
        if not all(waiting):
            break
        batches += [lane.popleft() for lane in waiting]
    for left in waiting:  # with fewer lanes than readers, taking turns would have each reader read all that is left
        batches += left
    rest = rng.permutation(np.concatenate(carried))
    whole = len(rest) // micro_batch_size * micro_batch_size
    batches += _cut(rest[:whole], sizes, micro_batch_size, rng)
    if keep_last and whole < len(rest):
        batches.append(rest[whole:])
    return batches


def deal_batches(batches: Sequence[Numbers], process: int, processes: int) -> list[Numbers]:
    """Return the micro-batches of one of several processes: each gets its turn, so all are at the same place."""
    return list(batches[process::processes])


def measure_padding(lengths: npt.NDArray[np.float64], batches: Sequence[Numbers]) -> float:
    """Return the share of padding when the rows of each micro-batch are padded to its longest, in [0, 1)."""
    padded = sum(float(lengths[batch].max()) * len(batch) for batch in batches)
    used = sum(float(lengths[batch].sum()) for batch in batches)
    return 1 - used / padded if padded else 0.0


def _make_pools(groups: Numbers, least_rows: int, rng: np.random.Generator) -> deque[Numbers]:
    """Return pools of row numbers: groups in random order, each shuffled, dealt to pools of about one size.

    Where there are more pools than lanes, they are a multiple of the lanes, so that all lanes end at about one time.
    """
    by_group = np.argsort(groups, kind="stable")
    bounds = [0, *(np.flatnonzero(np.diff(groups[by_group])) + 1), len(groups)]
    members = [by_group[start:end] for start, end in pairwise(bounds)]
    count = max(1, len(groups) // least_rows)
    if count > LANES // 2:
        count += -count % LANES
    shuffled = [rng.permutation(members[index]) for index in rng.permutation(len(members))]
    ends = np.cumsum([len(rows) for rows in shuffled])
    pools: list[list[Numbers]] = [[] for _ in range(count)]
    for rows, end in zip(shuffled, ends, strict=True):
        middle = end - len(rows) / 2
        pools[min(count - 1, int(middle * count / len(groups)))].append(rows)
    return deque(np.concatenate(pool) for pool in pools if pool)


def _cut(rows: Numbers, sizes: npt.NDArray[np.float64], batch: int, rng: np.random.Generator) -> list[Numbers]:
    """Return micro-batches of rows of like sizes, in random order."""
    ordered = rows[np.argsort(sizes[rows], kind="stable")]  # equal ones stay shuffled
    cut = ordered.reshape(-1, batch)
    return [cut[index] for index in rng.permutation(len(cut))]
