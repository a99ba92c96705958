"""`bystander evaluate sid`: from options to the table, and mistakes in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]

REFERENCES = [
    {"audio": "a.wav", "total_nonbreak": False, "duration": 4, "break_time": 1, "text_with_break": "hm <break> wait"},
    {"audio": "b.wav", "total_nonbreak": True, "duration": 2, "break_time": 2, "text_with_break": "right"},
    {"audio": "c.wav", "total_nonbreak": True, "duration": 9, "break_time": 9, "text_with_break": None},
]
STOPS = {"a.wav": 1.5, "b.wav": None, "c.wav": 3.0}


@pytest.fixture
def run(run_command: Run) -> Run:
    return partial(run_command, "evaluate", "sid")


@pytest.fixture
def references(tmp_path: Path) -> Path:
    path = tmp_path / "refs.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in REFERENCES), "utf-8")
    return path


@pytest.fixture
def predictions(tmp_path: Path) -> Path:
    path = tmp_path / "mine.jsonl"
    path.write_text(
        "".join(
            json.dumps({"audio": audio, "total_nonbreak": stop is None, "break_time": -1 if stop is None else stop})
            + "\n"
            for audio, stop in STOPS.items()
        ),
        "utf-8",
    )
    return path


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "systems: name at least one, with --detectors energy_vad,webrtc_vad or --predictions name=file.jsonl"),
        (["--detectors", "deaf"], "detectors: 'deaf': no detector 'deaf'; there are energy_vad"),
        (["--predictions", "mine"], "--predictions 'mine': write it as name=file"),
        (["--predictions", "m=a.jsonl", "--predictions", "m=b.jsonl"], "--predictions: m comes twice"),
        (["--tolerance", "0.1", "--no-tolerance"], "--tolerance and --no-tolerance: give one of them"),
        (["--detectors", "energy_vad", "--bench", "/nowhere"], "bench /nowhere: has neither a manifest.json"),
        (["--set", "resample_by=speaker", "--detectors", "energy_vad"], "resample_by"),
    ],
)
def test_mistakes_are_one_line(run: Run, options: list[str], words: str) -> None:
    code, out, err = run(*options)
    assert code == 2, (out, err)
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert words in err


def test_clips_are_needed_to_be_heard(run: Run, references: Path, tmp_path: Path, prefect_server: None) -> None:
    code, _, err = run("--bench", references, "--detectors", "fake_detector", "--out", tmp_path / "store")
    assert code == 2
    assert "3 of 3 clips are not in" in err
    assert "name their folder with --audio" in err
    assert err.count("\n") == 1


def test_ends_with_the_table(
    run: Run, references: Path, predictions: Path, tmp_path: Path, prefect_server: None
) -> None:
    options = ["--bench", references, "--predictions", f"mine={predictions}", "--out", tmp_path / "store"]
    code, out, err = run(*options, "--name", "mine", "--cap", 4, "--set", "resamples=100")
    assert code == 0, err
    assert f"{tmp_path / 'store' / 'evaluations' / 'mine'}: 3 clips (2 en, 1 noise_silence), 1 systems." in out
    assert "| mine | 0.500 | 0.000 | 0.250 | 1.000 | 9.000 | 0.500 | 0.333 | 3.167 |" in out
    assert "| mine | – | – | 1 | 9.000 | – | 4.000 |" in out
    assert "| SID-model (published) | 0.444 | 0.140 | 0.921 | 0.026 | 0.215 | 0.389 | 0.124 | 0.711 |" in out
    code, out, _ = run(*options, "--no-published", "--no-tolerance", "--set", "resamples=100")
    assert code == 0
    assert "published" not in out
    assert "No stop counts as exact" in out
