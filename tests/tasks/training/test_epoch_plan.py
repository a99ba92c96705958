"""The plan of an epoch: each row once, like lengths together, storage read nearly in order, any position at once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.tasks.training.epoch_plan import LANES, deal_batches, measure_padding, plan_epoch


def make_rows(group_sizes: list[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    groups = np.repeat(np.arange(len(group_sizes)), group_sizes).astype(np.int64)
    return np.random.default_rng(seed).gamma(4.0, 2.0, len(groups)), groups


@given(
    sizes=st.lists(st.integers(1, 40), max_size=60),
    batch=st.integers(1, 33),
    seed=st.integers(0, 5),
    epoch=st.integers(0, 3),
    bucketed=st.booleans(),
)
def test_each_row_comes_once_in_full_batches(
    sizes: list[int], batch: int, seed: int, epoch: int, bucketed: bool
) -> None:
    lengths, groups = make_rows(sizes)
    plan = plan_epoch(lengths, groups, batch, seed, epoch, bucketed=bucketed)
    assert sorted(itertools.chain.from_iterable(plan)) == list(range(len(lengths)))
    assert all(len(rows) == batch for rows in plan[:-1])

    full = plan_epoch(lengths, groups, batch, seed, epoch, bucketed=bucketed, keep_last=False)
    assert [rows.tolist() for rows in full] == [rows.tolist() for rows in plan if len(rows) == batch]


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=30), batch=st.integers(1, 9), processes=st.integers(1, 5)
)
def test_processes_share_the_batches_out(sizes: list[int], batch: int, processes: int) -> None:
    plan = plan_epoch(*make_rows(sizes), batch, 3, 1)
    dealt = [deal_batches(plan, process, processes) for process in range(processes)]
    again = [rows for turn in itertools.zip_longest(*dealt) for rows in turn if rows is not None]
    assert [rows.tolist() for rows in again] == [rows.tolist() for rows in plan]
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


def test_the_order_hangs_on_seed_and_epoch_alone() -> None:
    lengths, groups = make_rows([20] * 30)

    def order(seed: int, epoch: int) -> tuple[int, ...]:
        return tuple(map(int, itertools.chain.from_iterable(plan_epoch(lengths, groups, 4, seed, epoch))))

    assert order(1, 0) == order(1, 0)
    assert len({order(seed, epoch) for seed in (1, 2) for epoch in (0, 1)}) == 4


def test_like_lengths_come_together() -> None:
    lengths, groups = make_rows([100] * 40)
    bucketed = measure_padding(lengths, plan_epoch(lengths, groups, 16, 0, 0))
    shuffled = measure_padding(lengths, plan_epoch(lengths, groups, 16, 0, 0, bucketed=False))
    assert bucketed < 0.06 < 0.4 < shuffled
    longest = [lengths[rows].max() for rows in plan_epoch(lengths, groups, 16, 0, 0)]
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.2  # their order is no order of lengths


@pytest.mark.parametrize("readers", [1, 2, 4])
def test_readers_that_take_turns_read_each_group_about_once_between_them(readers: int) -> None:
    lengths, groups = make_rows([100] * 400)
    plan = plan_epoch(lengths, groups, 16, 0, 0)
    read = 0
    for reader in range(readers):
        kept: list[int] = []
        for rows in deal_batches(plan, reader, readers):
            for group in np.unique(groups[rows]):
                if group in kept:
                    kept.remove(group)
                else:
                    read += 1
                kept = [*kept, group][-8 * LANES // readers :]
    assert read < 1.15 * 400


def test_of_big_groups_few_are_read_at_once() -> None:
    lengths, groups = make_rows([2000] * 12)
    plan = plan_epoch(lengths, groups, 4, 0, 0)
    switches = np.flatnonzero(np.diff([groups[rows[0]] for rows in plan]))
    assert len(switches) == 11  # one after another: each is in memory alone


def test_no_rows_make_no_batch() -> None:
    assert plan_epoch(np.empty(0), np.empty(0, np.int64), 4, 0, 0) == []
    assert measure_padding(np.empty(0), []) == 0
