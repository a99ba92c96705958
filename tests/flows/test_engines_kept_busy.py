"""The scheduler of partitions keeps engines busy: in virtual time, so that no machine's load is in the figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bystander.flows.harvest import ROLE_LIMITS
from bystander.tasks.engines.simulated_slots import measure_busy_together
from virtual_engines import Shape, VirtualBuild, run_virtual_build

# A row holds the model server for 5.4 slot-seconds and the voices for 2: with 64 slots, 24 voices take equally long.
LLM_IS_SLOWER, BOTH_ALIKE, VOICES_ARE_SLOWER = Shape(voices=48), Shape(voices=24), Shape(voices=12)


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(shape: Shape, limits: Mapping[Any, int] = ROLE_LIMITS, **fields: Any) -> VirtualBuild:
        return run_virtual_build(tmp_path, shape, limits, monkeypatch.setattr, **fields)

    return run


def test_model_server_is_held_at_its_capacity_where_it_is_the_slower_one(build: Any) -> None:
    found = build(LLM_IS_SLOWER)
    written = found.finished["write"][-1]
    assert found.measure_llm() >= 0.95
    # Every single slot is at work nearly all the time: the next requests wait at the server, not in the client.
    assert measure_busy_together([(found.llm.spans, found.llm.slots)], 0.0, written) >= 0.95


def test_voices_are_held_at_their_capacity_where_they_are_the_slower_ones(build: Any) -> None:
    found = build(VOICES_ARE_SLOWER)
    assert found.measure_voices() >= 0.95


def test_both_are_busy_at_once_where_they_take_equally_long(build: Any) -> None:
    found = build(BOTH_ALIKE)
    assert found.measure_llm() >= 0.95
    assert found.measure_voices() >= 0.95
    assert found.measure_together(0.9) >= 0.95


def test_one_partition_at_a_time_does_not_do(build: Any) -> None:
    """What the limits are for: a batch that is listened to leaves the voices idle, an end of a stage the server."""
    found = build(BOTH_ALIKE, {"writer": 1, "judge": 1, "speech": 1, "recogniser": 1})
    assert found.measure_llm() < 0.9
    assert found.measure_voices() < 0.8
