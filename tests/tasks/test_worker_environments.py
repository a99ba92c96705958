"""What a worker process opens for stage runs, how long it keeps it, and what it tells of its engines."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.config import load_config
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.stage_job import StageJob
from bystander.storage.stage_results import StageResult
from bystander.tasks.engine_use import EngineUse, UseLedger
from bystander.tasks.engines.metered_detector import ComputeTotals
from bystander.tasks.environment import (
    StageEnvironment,
    borrow_environment,
    close_environments,
    close_lent,
    open_environment,
)
from bystander.tasks.run_stage import StageReport, accept_report, report_stage
from bystander.tasks.stages import get_stage


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_environments()


def make_job(folder: Path, seed: int = 0) -> StageJob:
    return StageJob.of(load_config("fake", overrides={"store": str(folder), "seed": seed}))


def borrow(job: StageJob, run: str) -> StageEnvironment:
    with borrow_environment(job, run) as environment:
        environment.engine("speech")
        return environment


def is_closed(environment: StageEnvironment) -> bool:
    return not environment._engines


def test_environment_is_kept_for_the_next_stage_run(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    assert borrow(job, "run") is borrow(job, "run")


@pytest.mark.parametrize("change", ["job", "run", "devices"])
def test_environment_of_what_is_over_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    before = borrow(make_job(tmp_path), "run")
    if change == "devices":
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    after = borrow(make_job(tmp_path, seed=int(change == "job")), "other" if change == "run" else "run")
    assert after is not before
    assert is_closed(before)
    assert not is_closed(after)


def test_environment_in_use_is_left_open(tmp_path: Path) -> None:
    with borrow_environment(make_job(tmp_path), "run") as one:
        one.engine("speech")
        borrow(make_job(tmp_path, seed=1), "other")
        close_lent("run")
        assert not is_closed(one)
    close_lent("run")
    assert is_closed(one)


def test_flow_lends_its_own_environment_and_keeps_it_open(tmp_path: Path) -> None:
    own = open_environment(make_job(tmp_path))
    assert borrow(make_job(tmp_path), "run") is own
    borrow(make_job(tmp_path, seed=1), "run")
    close_lent("run")
    assert not is_closed(own)


def test_process_that_ends_closes_its_engines(tmp_path: Path) -> None:
    script = (
        "from bystander.schemas.config import load_config\n"
        "from bystander.schemas.stage_job import StageJob\n"
        "from bystander.tasks.environment import borrow_environment\n"
        f"job = StageJob.of(load_config('fake', overrides={{'store': {str(tmp_path)!r}}}))\n"
        "with borrow_environment(job, 'run') as environment:\n"
        "    environment.engine('speech').close = lambda: print('closed')\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout == "closed\n"


def test_another_engine_or_stage_in_a_worker_is_an_error(tmp_path: Path) -> None:
    environment = open_environment(make_job(tmp_path))
    stage = get_stage("synthesise_speech")
    report = make_report(stage, environment)
    assert accept_report(report, stage, environment) is report.result
    other = replace(report, process="gpu-2:77")
    assert accept_report(other, stage, environment) is report.result
    wrong = replace(other, described={**report.described, "the engine of role speech": "0"})
    with pytest.raises(EngineSetupError, match=r"process gpu-2:77 differs from this one in the engine of role speech;"):
        accept_report(wrong, stage, environment)


def make_report(stage: Any, environment: StageEnvironment) -> StageReport:
    """Return a report of a stage run without rows."""
    from bystander.storage.parts import Partition, write_part

    rows = stage.reads.empty_table()
    report = report_stage(stage, Partition(write_part(environment.store, "base.parquet", rows)), environment)
    assert isinstance(report.result, StageResult)
    return report


_USE = st.builds(
    EngineUse,
    st.dictionaries(st.sampled_from(["writer", "speech"]), st.tuples(st.integers(0, 99), st.integers(0, 99))),
    st.none() | st.builds(ComputeTotals, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)),
)


@given(st.lists(st.tuples(_USE, st.booleans()), max_size=8))
def test_use_is_counted_once_whoever_takes_it(steps: list[tuple[EngineUse, bool]]) -> None:
    """A process that tells of its use now and then: what it told and what it did not add up to all of it."""
    worker, flow = UseLedger(), UseLedger()
    measured = told = EngineUse()
    for use, tells in steps:
        measured += use
        if tells:
            taken = worker.take(measured)
            told += taken
            flow.add(taken)
    left = worker.total(measured)
    assert drop_zeros(flow.total(EngineUse()) + left) == drop_zeros(measured)
    flow.add(worker.take(measured))
    assert drop_zeros(flow.total(EngineUse())) == drop_zeros(measured)


def drop_zeros(use: EngineUse) -> tuple[dict[str, tuple[int, int]], ComputeTotals]:
    return {role: calls for role, calls in use.calls.items() if calls != (0, 0)}, use.compute or ComputeTotals()
