"""`bystander voices`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bystander.cli.main import app
from bystander.schemas.errors import ConfigError, InputError
from voice_corpora import make_clip, write_clip, write_folders

FAKE = ("--set", "verifier.engine=fake_verifier", "--workers", "1")


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["voices", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_a_bank_is_made_shown_and_verified(tmp_path: Path) -> None:
    source = write_folders(tmp_path / "corpus", {"ann": 1, "bob": 1, "cat": 9}, clips=1)
    write_clip(source / "dan/1.flac", make_clip(5, seconds=2.0))
    bank = str(tmp_path / "bank")
    code, said = call("index", str(source), "--to", bank, "--licence", "CC0", *FAKE)
    assert code == 0
    assert "3 voices of 4 speakers (folders)" in said
    assert "Speakers rejected: 1 (too_little_speech 1)." in said
    assert call("verify", bank) == (0, f"{bank}: sound.\n")
    code, said = call("show", bank, "--similar", "0.9")
    assert code == 0
    assert "licence CC0" in said
    assert "- [ann, bob]" in said
    assert "1 of 3 pairs have a cosine of 0.9 or more" in said
    code, said = call("index", str(source), "--to", bank, "--licence", "CC0", *FAKE)
    assert said.startswith("Nothing has changed")


def test_a_damaged_bank_is_refused(tmp_path: Path) -> None:
    source = write_folders(tmp_path / "corpus", {"ann": 1}, clips=1)
    bank = tmp_path / "bank"
    call("index", str(source), "--to", str(bank), *FAKE)
    next((bank / "data").glob("*.parquet")).write_bytes(b"gone")
    code, said = call("verify", str(bank))
    assert code == 2
    assert "cannot be read as Parquet" in said
    with pytest.raises(InputError, match="is not of the size"):
        call("show", str(bank))


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (("--set", "index.min_duration_s=20"), ConfigError, "min_duration_s 20 is above max_duration_s 12"),
        (("--set", "index.min_snr=20"), ConfigError, "index.min_snr: no such field; there are"),
        (("--layout", "tar"), ConfigError, "source.layout: Input should be 'auto', 'folders'"),
        ((), InputError, "there is no such folder"),
    ],
)
def test_mistakes_are_said_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        call("index", str(tmp_path / "nothing"), "--to", str(tmp_path / "bank"), *arguments)
