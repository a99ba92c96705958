"""`bystander train sid` on the command line: what it takes, and which mistakes it finds before any work."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bystander.cli.main import app, main
from bystander.cli.train_sid import _parse_transcripts
from bystander.schemas.sid_lm_config import SidLmConfig
from bystander.schemas.train_sid_config import TrainSidConfig

pytest.importorskip("torch")


def test_options_are_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[TrainSidConfig] = []

    class Stop(Exception):
        pass

    def check(config: TrainSidConfig) -> None:
        seen.append(config)
        raise Stop

    monkeypatch.setattr("bystander.flows.check_train_sid.check_train_sid", check)
    command = [
        "train", "sid", "--profile", "paper", "--data", "one", "--data", "two", "--encoder", "e", "--k", "4",
        "--language-model", "l", "--transcripts", "s3://x/*.parquet:sound:words", "--epochs", "1.5", "--steps", "7",
        "--batch-size", "8", "--micro-batch-size", "4", "--learning-rate", "0.01", "--seed", "9",
        "--out", str(tmp_path), "--set", "crops.near_share=0.25", "--set", "alignment=null",
    ]  # fmt: skip
    result = CliRunner().invoke(app, command)
    assert isinstance(result.exception, Stop)
    (config,) = seen
    assert (config.data, config.k, config.seed, config.store) == (("one", "two"), 4, 9, str(tmp_path))
    assert (config.crops.near_share, config.alignment, config.profile) == (0.25, None, "paper")
    pace = config.optimisation
    assert (pace.epochs, pace.max_steps, pace.batch_size, pace.micro_batch_size, pace.learning_rate) == (
        1.5,
        7,
        8,
        4,
        0.01,
    )
    assert isinstance(config.model, SidLmConfig)
    assert (config.model.encoder, config.model.language_model) == ("e", "l")
    (source,) = config.model.transcripts
    assert (source.path, source.audio_column, source.text_column) == ("s3://x/*.parquet", "sound", "words")


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("a.parquet", {"path": "a.parquet"}),
        ("s3://bucket/a.parquet", {"path": "s3://bucket/a.parquet"}),
        ("s3://b/a:x:y", {"path": "s3://b/a", "audio_column": "x", "text_column": "y"}),
    ],
)
def test_transcripts_name_their_columns(text: str, fields: dict[str, Any]) -> None:
    assert _parse_transcripts(text) == fields


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "error: data: name the folder of a finished build of SID rows, with --data"),
        (["--profile", "huge"], "error: no profile 'huge'; there are miniature, paper"),
        (
            ["--encoder", "whisper"],
            "error: configuration of profile 'miniature': model.encoder: belongs to architecture sid_lm, and this is "
            "recurrent: choose that architecture, or leave the field out",
        ),
        (
            ["--transcripts", "a.parquet"],
            "error: configuration of profile 'miniature': model.transcripts: belongs to architecture sid_lm, and this",
        ),
        (
            ["--data", "/nowhere/at/all"],
            "error: --data /nowhere/at/all: there is no manifest.json, so it is no finished build; name the folder of "
            "a finished build of SID rows, STORE/DATASET/NAME",
        ),
    ],
)
def test_mistakes_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["bystander", "train", "sid", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    error = capfd.readouterr().err
    assert (end.value.code, error.count("\n")) == (2, 1)
    assert error.startswith(message)
    assert "stack_frames" not in error  # fields of the other architecture
