"""`bystander plan`: tables, JSON, and mistakes in one line each."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bystander.cli.main import main
from bystander.schemas.rebuild import RebuildPlan


def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["bystander", "plan", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capfd.readouterr()
    return end.value.code if isinstance(end.value.code, int) else 0, out, err


def test_paper_profile_is_planned(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(
        monkeypatch,
        capfd,
        "--price-per-gpu-hour",
        "2",
        "--gpus",
        "judge=8",
        "--rate",
        "speech=100",
        "--rate",
        "recogniser=50",
    )
    assert (code, err) == (0, "")
    assert out.startswith("tpi-train, profile paper: 88,000 rows\n")
    assert "into synthesise_speech" in out
    assert "openai Qwen3-235B-A22B-Thinking-2507" in out
    assert "price of GPU hours held" in out
    assert "Mind: " in out  # the starter set does not have tens of thousands of requests
    assert max(len(line) for line in out.splitlines() if "│" in line or "┃" in line) <= 120


def test_json_can_be_read(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        monkeypatch, capfd, "--profile", "fake", "--dataset", "tpi-bench", "--rows", "40", "--json", "--set", "seed=3"
    )
    report = json.loads(out)
    assert (code, report["dataset"], report["rows"]) == (0, "tpi-bench", 40)
    assert report["candidates"]["low"] <= report["candidates"]["expected"] <= report["candidates"]["high"]
    assert {role["role"] for role in report["roles"]} == {"writer", "speech", "recogniser"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--rate", "writer"], "--rate 'writer': write it as name=value; names are writer, writer_prompt, judge"),
        (["--rate", "tts=4"], "--rate 'tts=4': write it as name=value; names are "),
        (["--rate", "speech=0"], "--rate 'speech=0': '0' is no number above 0"),
        (["--rate", "speech=nan"], "'nan' is no number above 0"),
        (["--rate", "speech=fast"], "'fast' is no number above 0"),
        (["--gpus", "judge=1.5"], "--gpus 'judge=1.5': '1.5' is no whole number above 0"),
        (["--from", "nowhere"], "is missing, so this is not a finished build"),
        (["--profile", "huge"], "no profile 'huge'; there are fake, laptop, paper, playbook"),
        (["--queries", "nowhere.jsonl"], "nowhere.jsonl"),
    ],
)
def test_mistakes_are_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    options: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(monkeypatch, capfd, *options)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert words in err
    assert err.count("\n") == 1


def test_rebuild_has_the_options_of_build_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    options = ("--profile", "fake", "--rows", "11", "--seed", "3", "--out", str(store), "--name", "one")
    code, out, err = run(monkeypatch, capfd, "rebuild", "tpi-train", *options, "--json")
    assert (code, err) == (0, "")
    plan = RebuildPlan.model_validate_json(out)
    assert (plan.build, plan.against, plan.verdict) == ("one", None, "rebuilt")
    counts = {stage.stage: (stage.new, stage.made) for stage in plan.stages}
    assert counts["normalise_queries"] == (328, 328)
    assert counts["write_interruptions"][0] >= 11
    assert counts["synthesise_speech"] == (0, 0)
    assert any("not known" in note for note in plan.notes)
    assert not store.exists()


def test_a_release_is_planned_under_its_date(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = ("--profile", "fake", "--out", str(tmp_path / "store"), "--release", "--release-date", "2026-11-30")
    code, out, err = run(monkeypatch, capfd, "rebuild", "tpi-train", *options, "--json")
    assert (code, err) == (0, "")
    plan = RebuildPlan.model_validate_json(out)
    assert plan.build == "2026-11-30"
    assert plan.notes[-1] == "Nothing was released yet: the first release is made."
    assert not (tmp_path / "store").exists()


def test_rebuild_as_a_table(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(monkeypatch, capfd, "rebuild", "sid-bench", "--profile", "fake", "--out", str(tmp_path))
    assert code == 0
    assert "there is no earlier build to compare with" in out
    assert "write_conversations" in out


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--rows", "5", "rebuild", "tpi-train"), "put them after its name"),
        (("rebuild", "tpi-train", "--profile", "fake", "--against", "none"), "is missing, so this is not a finished"),
        (("rebuild", "tpi-train", "--profile", "none"), "no profile 'none'"),
    ],
)
def test_mistakes_about_rebuilds_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: tuple[str, ...],
    part: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(monkeypatch, capfd, *arguments)
    assert (code, out) == (2, "")
    assert part in err
    assert err.count("\n") == 1


def test_a_pack_of_four_classes_is_planned(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(monkeypatch, capfd, "--profile", "fake", "--pack", "household", "--rows", "44", "--json")
    report = json.loads(out)
    assert (code, report["rows"]) == (0, 44)
    calls = {call["task"]: call["calls"]["expected"] for call in report["calls"]}
    assert calls["label_class"] == 3 * report["stages"]["label_actionability"]["expected"]


def test_a_pack_that_is_not_there_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(monkeypatch, capfd, "--profile", "fake", "--pack", "nowhere")
    assert code != 0
    assert "pack 'nowhere'" in err
    assert "Traceback" not in err
