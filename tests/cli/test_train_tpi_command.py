"""`bystander train tpi`: mistakes in one line, and a run from options to its summary."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("peft")

from tiny_omni import save_qwen_omni
from training_rows import make_va_row, write_tpi, write_va

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(run_command: Run) -> Run:
    return partial(run_command, "train", "tpi")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--profile", "huge"], "no profile 'huge'; there are fake, miniature, paper"),
        ([], "data: name at least one finished TPI-Train build, with --data FOLDER"),
        (["--data", "nowhere", "--mixture", "base"], "nowhere"),
        (["--mixture", "most"], "mixture: "),
        (["--batch-size", "6", "--micro-batch-size", "4"], "batch_size 6 is no multiple of micro_batch_size 4"),
        (["--set", "dyadic.text_column=q"], "dyadic.text_column: name the Parquet that it is about with --dyadic"),
        (["--dyadic", "va.parquet", "--set", "dyadic.text=q"], "dyadic.0.text: no such field; there are audio_column,"),
        (["--set", "model.lora.r=0"], "model.lora.r: "),
        (["--set", "model.lora.rank=8"], "rank: no such field; there are alpha, dropout, r, target_modules"),
    ],
)
def test_mistakes_are_one_line(run: Run, options: list[str], words: str) -> None:
    code, out, err = run(*options)
    assert code == 2, (out, err)
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert words in err


def test_columns_of_dyadic_parquet_are_named_by_option(run: Run, tmp_path: Path) -> None:
    write_tpi(tmp_path / "build", 6, 0)
    write_va(tmp_path / "va.parquet", [make_va_row(0)])
    options = ["--profile", "fake", "--model", tmp_path, "--data", tmp_path / "build", "--mixture", "va"]
    options += ["--dyadic", tmp_path / "va.parquet", "--set", "dyadic.text_column"]
    assert "has no column told; it has" in run(*options[:-1], "dyadic.text_column=told")[2]
    assert "has no column" not in run(*options[:-1], "dyadic.text_column=answer")[2]


@pytest.mark.usefixtures("prefect_server")
def test_ends_with_where_the_run_lies(run: Run, tmp_path: Path) -> None:
    omni = save_qwen_omni(tmp_path / "omni", heard_s=6)
    write_tpi(tmp_path / "build", 6, 0)
    options = ["--profile", "fake", "--model", omni, "--data", tmp_path / "build", "--mixture", "base", "--steps", 2]
    options += ["--out", tmp_path / "store", "--name", "mine", "--seed", 3, "--set", "model.lora.r=2"]
    code, out, err = run(*options)
    assert code == 0, (out, err)
    folder = tmp_path / "store" / "trained" / "mine"
    assert (folder / "model" / "adapter_model.safetensors").is_file()
    assert f"{folder}: speech_lm, trained on" in out
    assert "training: 2 steps, loss" in out
