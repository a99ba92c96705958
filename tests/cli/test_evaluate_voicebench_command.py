"""`bystander evaluate voicebench`: mistakes are one line and exit code 2, found before Prefect starts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bystander.cli.main import main
from voicebench_answers import write_predictions
from voicebench_copies import write_voicebench

Fail = Callable[..., str]


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Fail:
    def call(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["bystander", "evaluate", "voicebench", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capfd.readouterr()
        assert end.value.code == 2
        assert not out
        assert err.startswith("error: ")
        assert err.count("\n") == 1, err
        return err

    return call


def test_mistakes_are_one_line(fail: Fail, tmp_path: Path) -> None:
    data = write_voicebench(tmp_path / "data")
    predictions = write_predictions(tmp_path / "predictions.jsonl")
    system = ("--system", f"tiny={predictions}")
    rest = ("--out", tmp_path / "store", "--judge", "rules=fake_text")
    assert "systems: name at least one, with --system" in fail("--data", data)
    assert "need one; name it with --judge" in fail("--data", data, *system)
    assert "with --data" in fail(*system, *rest)
    assert f"VoiceBench {tmp_path}: has no folder alpacaeval_full" in fail("--data", tmp_path, *system, *rest)
    assert "parts.0" in fail("--data", data, *system, *rest, "--parts", "mtbench")
    assert "has no split mars" in fail("--data", data, *system, *rest, "--set", "splits.sd_qa=[mars]")
    assert "write it as name=model.yaml" in fail("--data", data, "--system", "tiny", *rest)
    assert "rows" in fail("--data", data, *system, *rest, "--rows", "0")
