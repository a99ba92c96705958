"""What a person sees of a running build: a table in a terminal, lines elsewhere."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from bystander.cli import progress
from bystander.cli.progress import ProgressDisplay
from bystander.storage.parts import PartRef
from bystander.storage.stage_results import StageResult


def make_result(stage: str, kept: int, rejected: int) -> StageResult:
    return StageResult(
        stage=stage,
        fingerprint="f",
        rows_in=kept + rejected,
        kept=PartRef("k", kept, 1, "0"),
        rejected=PartRef("r", rejected, 1, "0"),
        reasons={"unrealistic": rejected} if rejected else {},
    )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def play(display: ProgressDisplay, clock: list[float]) -> None:
    display.on_phase("wave 1: 40 candidates")
    display.on_stream(["draw_scenarios", "check_realism"], 40)
    clock[0] += 10
    display.on_result("draw_scenarios", make_result("draw_scenarios", 25, 0), reused=True)
    display.on_result("draw_scenarios", make_result("draw_scenarios", 15, 0), reused=False)
    clock[0] += 10
    display.on_result("check_realism", make_result("check_realism", 22, 3), reused=False)
    display.on_accepted({"actionable": 8, "ignorable": 30}, {"actionable": 20, "ignorable": 20})


def find_cells(text: str, stage: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(stage)]
    return line.split()[1:]


def test_lines_without_a_terminal(clock: list[float]) -> None:
    file = io.StringIO()
    with ProgressDisplay(Console(file=file, soft_wrap=True)) as display:
        play(display, clock)
    assert file.getvalue().splitlines() == [
        "[00:00:00] wave 1: 40 candidates",
        "[00:00:20] finished rows: actionable 8 of 20, ignorable 30 of 20",
    ]


def test_table_in_a_terminal(clock: list[float]) -> None:
    file = io.StringIO()
    console: Any = Console(file=file, force_terminal=True, width=100, color_system=None)
    display = ProgressDisplay(console)
    play(display, clock)
    with console.capture() as capture:
        console.print(display._render())
    text = capture.get()
    # 25 of 40 rows are through the last stage in 20 s: the other 15 take 12 s.
    assert "00:00:20  wave 1: 40 candidates  (28 of 40 rows finished, about 12 s left in this round)" in text
    assert find_cells(text, "stage") == ["accepted", "rejected", "reused", "waiting", "rows/s"]
    # What was found again is no work done: 15 rows in 10 s.
    assert find_cells(text, "draw_scenarios") == ["40", "0", "25", "0", "1.50"]
    assert find_cells(text, "check_realism") == ["22", "3", "0", "15", "1.25"]


def test_rows_go_the_way_of_their_own_stream(clock: list[float]) -> None:
    console = Console(width=100)
    display = ProgressDisplay(console)
    display.on_stream(["draw_scenarios", "mix_speakers"], 4)
    display.on_result("draw_scenarios", make_result("draw_scenarios", 4, 0), reused=False)
    display.on_result("mix_speakers", make_result("mix_speakers", 4, 0), reused=False)
    display.on_stream(["build_hard_negatives", "mix_speakers"], 2)
    with console.capture() as before:
        console.print(display._render())
    assert find_cells(before.get(), "build_hard_negatives")[3] == "2"
    display.on_result("build_hard_negatives", make_result("build_hard_negatives", 2, 0), reused=False)
    with console.capture() as after:
        console.print(display._render())
    assert find_cells(after.get(), "build_hard_negatives")[3] == "0"
    assert find_cells(after.get(), "mix_speakers")[3] == "2"


@pytest.mark.parametrize(("seconds", "words"), [(5.4, "5 s"), (600, "10 min"), (9000, "2.5 h")])
def test_durations_are_said_in_fitting_units(seconds: float, words: str) -> None:
    assert progress._say_duration(seconds) == words


def test_live_display_leaves_the_last_table_behind(clock: list[float]) -> None:
    file = io.StringIO()
    with ProgressDisplay(Console(file=file, force_terminal=True, width=100, color_system=None)) as display:
        play(display, clock)
    assert "check_realism" in file.getvalue()


def test_time_left_is_not_guessed_before_there_is_a_row(clock: list[float]) -> None:
    console = Console(width=100)
    display = ProgressDisplay(console)
    display.on_accepted({}, {"actionable": 3})
    with console.capture() as capture:
        console.print(display._render())
    assert "(0 of 3 rows finished)" in capture.get()
