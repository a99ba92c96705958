"""Partitions through stages: nothing lost, nothing run twice, damage mended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bystander.flows.listeners import SilentListener
from bystander.flows.partition_stream import Journey, stream_partitions
from bystander.schemas.errors import (
    BatchPendingError,
    ConfigError,
    EngineError,
    EngineUnavailableError,
    WorkerLostError,
)
from bystander.schemas.stages import Stage
from bystander.storage.parts import read_partition
from bystander.storage.stage_results import StageResult, read_rejects
from toy_stages import Calls, PoolSubmit, ToyEnvironment, make_partition, make_stages

NUMBERS = {"p0": [0, 1, 2], "p1": [3, 4], "p2": [6, 8, 10], "p3": [5]}


class Recorder(SilentListener):
    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int, int, bool]] = []
        self.phases: list[str] = []

    def on_phase(self, phase: str) -> None:
        self.phases.append(phase)

    def on_result(self, stage: str, result: StageResult, reused: bool) -> None:
        self.seen.append((stage, result.rows_in, result.rows_kept, result.rows_rejected, reused))


def run(
    folder: Path,
    workers: int = 2,
    note: str = "a",
    engine: str = "e1",
    stages: list[Stage] | None = None,
    retry_delays_s: tuple[float, ...] = (),
) -> tuple[list[Journey], Calls, Recorder, PoolSubmit]:
    calls = Calls()
    environment: Any = ToyEnvironment(folder, note, engine)
    chain = stages or make_stages(calls)
    partitions = {name: make_partition(environment.store, name, numbers) for name, numbers in NUMBERS.items()}
    recorder, submit = Recorder(), PoolSubmit(chain, environment, workers)
    journeys = stream_partitions(
        partitions, chain, environment, recorder, {"speech": 1}, workers, submit, retry_delays_s
    )
    return journeys, calls, recorder, submit


def read_all(folder: Path, journeys: list[Journey]) -> list[dict[str, Any]]:
    store: Any = ToyEnvironment(folder).store
    return [row for journey in journeys for row in read_partition(store, journey.partition).to_pylist()]


def test_all_rows_are_kept_or_rejected_in_order(tmp_path: Path) -> None:
    journeys, calls, recorder, _ = run(tmp_path)
    rows = read_all(tmp_path, journeys)
    assert [row["n"] for row in rows] == [0, 2, 4, 6, 8, 10]
    assert [row["square"] for row in rows] == [0, 4, 16, 36, 64, 100]
    assert calls.rows == {"double": 9, "note": 6, "square": 6}
    assert all(read == kept + lost for _, read, kept, lost, _ in recorder.seen)
    store: Any = ToyEnvironment(tmp_path).store
    rejects = [row for j in journeys for row in read_rejects(store, *j.results[0]).to_pylist()]
    assert [(r["n"], r["reject_stage"], r["reject_reason"]) for r in rejects] == [
        (n, "double", "odd") for n in (1, 3, 5)
    ]


def test_second_run_submits_nothing(tmp_path: Path) -> None:
    first, *_ = run(tmp_path)
    second, calls, recorder, submit = run(tmp_path)
    assert submit.submitted == []
    assert calls.rows == {}
    assert [journey.partition for journey in second] == [journey.partition for journey in first]
    assert all(reused for *_, reused in recorder.seen)


def test_workers_do_not_change_a_part(tmp_path: Path) -> None:
    one, *_ = run(tmp_path / "one", workers=1)
    four, *_ = run(tmp_path / "four", workers=4)
    assert [journey.partition for journey in one] == [journey.partition for journey in four]


def test_change_of_a_column_that_a_stage_does_not_use_does_not_run_it_again(tmp_path: Path) -> None:
    run(tmp_path)
    journeys, calls, _, _ = run(tmp_path, note="b")
    assert calls.rows == {"note": 6}
    assert {(row["note"], row["n"] ** 2 == row["square"]) for row in read_all(tmp_path, journeys)} == {("b", True)}


def test_change_of_an_engine_runs_its_stage_again(tmp_path: Path) -> None:
    run(tmp_path)
    _, calls, _, _ = run(tmp_path, engine="e2")
    assert calls.rows == {"square": 6}


@pytest.mark.parametrize("damage", ["lost", "flipped"])
def test_damaged_part_is_found_and_made_again(tmp_path: Path, damage: str) -> None:
    first, *_ = run(tmp_path)
    expected = read_all(tmp_path, first)
    victim = tmp_path / first[2].results[0][1].kept.path
    data = victim.read_bytes()
    if damage == "lost":
        victim.unlink()
    else:
        victim.write_bytes(data[:30] + bytes([data[30] ^ 0xFF]) + data[31:])
    # Another note, so that the second stage has to read the part.
    journeys, calls, _, _ = run(tmp_path, note="b")
    assert calls.rows["double"] == 3
    assert [row["square"] for row in read_all(tmp_path, journeys)] == [row["square"] for row in expected]


def make_failing_stages(calls: Calls, errors: dict[int, list[Exception]]) -> list[Stage]:
    """Return the stages, of which the third raises the errors of each number it meets before it does its work."""
    *first, square = make_stages(calls)

    def fail(rows: Any, context: Any) -> Any:
        for number in rows["n"].to_pylist():
            if errors.get(number):
                raise errors[number].pop(0)
        return square.run(rows, context)

    return [*first, replace(square, run=fail)]


def test_engine_that_is_out_of_reach_is_tried_again_and_nobody_else_is_sent_there_meanwhile(tmp_path: Path) -> None:
    calls = Calls()
    gone = [EngineUnavailableError(f"gone {i}") for i in (1, 2)]
    journeys, _, recorder, submit = run(
        tmp_path, workers=1, stages=make_failing_stages(calls, {0: gone}), retry_delays_s=(0.1, 0.2)
    )
    assert [row["square"] for row in read_all(tmp_path, journeys)] == [0, 4, 16, 36, 64, 100]
    assert recorder.phases == ["square: gone 1; trying again in 0.1 s", "square: gone 2; trying again in 0.2 s"]
    assert [name for stage, name in submit.submitted if stage == "square"] == ["p0"] * 3 + ["p1", "p2", "p3"]


def test_retries_are_counted_for_each_stage_and_run_out(tmp_path: Path) -> None:
    gone = [EngineUnavailableError(f"gone {i}") for i in range(4)]
    with pytest.raises(EngineUnavailableError, match="gone 2"):
        run(tmp_path, stages=make_failing_stages(Calls(), {0: gone}), retry_delays_s=(0, 0))
    assert [str(error) for error in gone] == ["gone 3"]


def test_partition_whose_process_died_is_run_again_at_once_and_not_for_ever(tmp_path: Path) -> None:
    """The delays are longer than a test may take."""
    died = [WorkerLostError(f"a process died {i}") for i in range(4)]
    journeys, _, recorder, _ = run(
        tmp_path / "a", stages=make_failing_stages(Calls(), {0: died[:2]}), retry_delays_s=(3600.0, 3600.0)
    )
    assert [row["square"] for row in read_all(tmp_path / "a", journeys)] == [0, 4, 16, 36, 64, 100]
    assert recorder.phases == [f"square: a process died {i}; trying again now" for i in (0, 1)]
    with pytest.raises(WorkerLostError, match=r"^square of p0: a process died 2, 3 times; if it runs out of memory"):
        run(tmp_path / "b", stages=make_failing_stages(Calls(), {0: died}), retry_delays_s=(3600.0, 3600.0))


@pytest.mark.parametrize("error", [ConfigError("no such voice"), EngineError("broken"), ZeroDivisionError("a bug")])
def test_error_that_no_retry_mends_ends_the_stream_while_another_partition_rests(
    tmp_path: Path, error: Exception
) -> None:
    """The delay is longer than a test may take, and the partition that rests keeps no worker: there is only one."""
    calls = Calls()
    stages = make_failing_stages(calls, {0: [EngineUnavailableError("gone")]})
    note = stages[1].run

    def fail(rows: Any, context: Any) -> Any:
        if "row-10" in rows["id"].to_pylist():
            raise error
        return note(rows, context)

    stages[1] = replace(stages[1], run=fail)
    with pytest.raises(type(error), match=str(error)):
        run(tmp_path, workers=1, stages=stages, retry_delays_s=(3600.0,))
    assert calls.rows["note"] >= 2  # p0, which rests, was through


def test_partition_that_waits_for_a_batch_does_not_keep_the_others_from_asking(tmp_path: Path) -> None:
    waits = {0: [BatchPendingError("/a/run-batches.sh", 3)], 10: [BatchPendingError("/a/run-batches.sh", 4)]}
    calls = Calls()
    with pytest.raises(BatchPendingError, match=r"^7 requests wait .* run /a/run-batches\.sh where vLLM is"):
        run(tmp_path, workers=1, stages=make_failing_stages(calls, {**waits}))
    assert calls.rows == {"double": 9, "note": 6, "square": 1}
    journeys, again, _, _ = run(tmp_path)
    assert again.rows == {"square": 5}
    assert [row["square"] for row in read_all(tmp_path, journeys)] == [0, 4, 16, 36, 64, 100]


def test_stage_is_described_once_however_many_partitions_it_runs_on(tmp_path: Path) -> None:
    (tmp_path / "noise.wav").write_bytes(b"noise")
    described: list[str] = []
    stages = make_stages(Calls())

    def list_files(_params: Any) -> list[tuple[str, Path]]:
        described.append("square")
        return [("noise.wav", tmp_path / "noise.wav")]

    stages[2] = replace(stages[2], list_files=list_files)
    *_, submit = run(tmp_path, stages=stages)
    assert sum(stage == "square" for stage, _ in submit.submitted) > 1
    assert described == ["square"]


def test_failure_of_a_stage_keeps_what_was_finished(tmp_path: Path) -> None:
    calls = Calls()
    broken = make_failing_stages(calls, {10: [EngineUnavailableError("the server is gone")]})
    with pytest.raises(EngineUnavailableError, match="the server is gone"):
        run(tmp_path, workers=1, stages=broken)
    before = dict(calls.rows)
    _, again, _, _ = run(tmp_path)
    assert again.rows.get("double", 0) + before["double"] == 9
    assert again.rows["square"] <= 6


def test_stage_is_handed_the_columns_that_it_uses_and_the_others_are_carried_on(tmp_path: Path) -> None:
    handed: dict[str, list[str]] = {}

    def watch(stage: Stage) -> Stage:
        def run_watched(rows: Any, context: Any) -> Any:
            handed[stage.name] = rows.column_names
            return stage.run(rows, context)

        return replace(stage, run=run_watched)

    journeys, *_ = run(tmp_path, stages=[watch(stage) for stage in make_stages(Calls())])
    assert handed == {"double": ["id", "n"], "note": ["id"], "square": ["id", "n"]}
    assert read_all(tmp_path, journeys)[1] == {"id": "row-2", "n": 2, "double": 4, "note": "a", "square": 4}
