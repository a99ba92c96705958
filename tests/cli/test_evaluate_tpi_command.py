"""`bystander evaluate tpi`: from options to the table, and mistakes in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from evaluations import make_bench_rows, write_bench

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(run_command: Run) -> Run:
    return partial(run_command, "evaluate", "tpi")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bench(tmp_path_factory.mktemp("benches") / "bench")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--profile", "huge"], "no profile 'huge'; there are fake, laptop, paper, playbook"),
        (["--system", "policy"], "--system 'policy': write it as name=model.yaml or name=predictions.jsonl"),
        (["--system", "s={engine: predictions}", "--system", "s=b.jsonl"], "--system: s comes twice"),
        (["--judge", "j=none.yaml"], "none.yaml: cannot be read"),
        (["--set", "rows=0", "--profile", "fake"], "rows: "),
        (["--profile", "fake"], "systems: name at least one, with --system"),
    ],
)
def test_mistakes_are_one_line(run: Run, options: list[str], words: str) -> None:
    code, out, err = run(*options)
    assert code == 2, (out, err)
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert words in err


@pytest.mark.usefixtures("prefect_server")
def test_ends_with_the_table(run: Run, bench: Path, tmp_path: Path) -> None:
    replies = tmp_path / "mine.jsonl"
    replies.write_text(
        "".join(json.dumps({"id": r["id"], "reply": r["reply"]}) + "\n" for r in make_bench_rows()), "utf-8"
    )
    options = ["--profile", "fake", "--bench", bench, "--out", tmp_path / "store", "--name", "mine", "--rows", 3]
    chosen = ["--system", f"mine={replies}", "--judge", "rules=playbook", "--set", "resamples=100"]
    code, out, err = run(*options, *chosen)
    assert code == 0, err
    assert f"{tmp_path / 'store' / 'evaluations' / 'mine'}: 6 rows (3 tpi_test, 3 janus_test), 3 linked pairs" in out
    assert "| mine |" in out
    assert (tmp_path / "store" / "evaluations" / "mine" / "manifest.json").exists()
    gone = tmp_path / "short.jsonl"
    gone.write_text(replies.read_text("utf-8").split("\n", 1)[1], "utf-8")
    code, out, err = run(*options, "--system", f"mine={gone}", "--set", "resamples=100")
    assert code == 2
    assert "system mine: 1 of 6 rows have no answer" in err
    assert "row-0000" in err
    assert err.count("\n") == 1
