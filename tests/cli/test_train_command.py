"""`bystander train show`, `bystander verify` of a run, and what training says where its packages are missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bystander.flows.training_packages import require_packages
from bystander.schemas.errors import EngineSetupError
from bystander.storage.training_manifest import TrainingManifest
from bystander.tasks.training.contract import StepRecord
from bystander.tasks.training.text_curve import draw_curve
from bystander.tasks.training.training_history import format_history, gather_history, parse_history
from training_runs import make_history, write_run


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "bystander.cli.main", *arguments], capture_output=True, text=True)


def test_a_run_is_shown_and_checked(tmp_path: Path) -> None:
    figures = {"accuracy": {"test": 0.9}, "lowest": [{"step": 3, "loss": 0.25}], "whole": True, "empty": {}, "of": None}
    manifest = write_run(tmp_path / "store", tmp_path, notes=("It is tiny.",), figures=figures)
    shown = run_command("train", "show", "run", "--out", str(tmp_path / "store"))
    assert shown.returncode == 0, shown.stderr
    for part in (
        "run: speech_lm (tpi)",
        "someone/tiny at main",
        "optimisation.learning_rate",
        "34 rows, 34 examples an epoch, 7 held out",
        "left out, empty_reply",
        "taken up again at step",
        "2.0000, 0.0500",
        "0.0625 at step 40",
        "accuracy.test",
        "- It is tiny.",
        "· loss, o held-out loss",
    ):
        assert part in shown.stdout
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    for line in ("accuracy.test 0.9", "lowest.0.step 3", "lowest.0.loss 0.25", "whole yes", "empty -", "of -"):
        assert line in lines
    assert not set("{}[]'") & set(shown.stdout)
    told = run_command("train", "show", "run", "--out", str(tmp_path / "store"), "--json").stdout
    assert TrainingManifest.model_validate_json(told) == manifest
    folder = tmp_path / "store" / "trained" / "run"
    assert run_command("train", "show", f"{folder}").stdout == shown.stdout
    assert run_command("verify", str(folder)).stdout == f"{folder}: sound.\n"
    (folder / "weights.bin").unlink()
    damaged = run_command("verify", str(folder))
    assert (damaged.returncode, damaged.stdout) == (2, "weights.bin: is missing.\n")
    absent = run_command("train", "show", "other", "--out", str(tmp_path / "store"))
    assert absent.returncode == 2
    assert "not a finished training run" in absent.stderr


def test_missing_packages_are_one_line() -> None:
    require_packages(["json"])
    with pytest.raises(EngineSetupError, match=r"training needs torchless.*pip install 'bystander\[train\]'"):
        require_packages(["json", "torchless"])


def test_a_curve_shows_where_losses_lie() -> None:
    curve = draw_curve(make_history(40), 40, 5).splitlines()
    assert curve[0].startswith("   2 |·")
    assert curve[4].startswith("0.05 |")
    assert curve[4].rstrip().endswith("o")
    assert curve[5:7] == ["     +" + "-" * 40, "      0" + f"{'step 40':>39}"]
    assert sum(line.count("o") for line in curve[:5]) == 4
    assert draw_curve(()) == ""
    assert "·" in draw_curve([StepRecord(1, 0.1, 0.5)])


def test_histories_survive_their_file() -> None:
    history = make_history(12)
    assert parse_history(format_history(history), "history") == history
    logs = [
        {"step": 0, "eval_loss": 3.0},
        {"step": 1, "epoch": 0.5, "loss": 2.0, "learning_rate": 0.1, "grad_norm": 1.0},
        {"step": 2, "epoch": 1.0, "loss": 1.0},
        {"step": 2, "epoch": 1.0, "eval_loss": 1.5},
        {"step": 2, "train_runtime": 5.0, "train_loss": 1.5},
    ]
    assert gather_history(logs) == (
        StepRecord(0, 0.0, None, 3.0),
        StepRecord(1, 0.5, 2.0, None, 0.1, 1.0),
        StepRecord(2, 1.0, 1.0, 1.5),
    )
