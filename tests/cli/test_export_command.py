from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bystander.cli.main import app
from bystander.schemas.errors import BuildError
from sid_rows import make_sid_rows, write_sid_build

FIELDS = ["audio", "total_nonbreak", "duration", "break_time", "text_with_break"]


def test_a_build_is_written_as_published(tmp_path: Path) -> None:
    write_sid_build(tmp_path / "build", make_sid_rows(1))
    result = CliRunner().invoke(
        app, ["export", "sid", str(tmp_path / "build"), "--to", str(tmp_path / "out"), "--plain", "--audio", "flac"]
    )
    assert result.exit_code == 0, result.output
    assert f"{tmp_path}/out/en_test_lines.jsonl: 3 lines" in result.output
    lines = [json.loads(line) for line in (tmp_path / "out/en_test_lines.jsonl").read_text("utf-8").splitlines()]
    assert [sorted(line) for line in lines] == [sorted(FIELDS)] * 3
    assert len(list((tmp_path / "out/en").glob("*.flac"))) == 3


def test_what_is_no_build_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="nor JSONL files of references"):
        CliRunner().invoke(app, ["export", "sid", str(tmp_path), "--to", str(tmp_path / "x")], catch_exceptions=False)
