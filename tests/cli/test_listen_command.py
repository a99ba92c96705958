from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from bystander.cli.main import main
from review_builds import write_sid, write_tpi

Fail = Callable[..., str]


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Fail:
    """Return what the command says where it cannot serve."""

    def call(*arguments: object) -> str:
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr(sys, "argv", ["bystander", "listen", "--no-open", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code in (1, 2)
        said = capfd.readouterr().err
        assert "Traceback" not in said
        return said

    return call


@pytest.mark.parametrize("write", [write_tpi, write_sid])
def test_it_serves_until_it_is_interrupted(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    folder = write(tmp_path)
    command = [sys.executable, "-m", "bystander.cli.main", "listen", str(folder), "--no-open", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert re.match(rf"\d+ rows and \d+ rejects of {folder.parent.name}/demo$", process.stdout.readline().decode())
        found = re.search(r"http://127\.0\.0\.1:\d+/\S*", process.stdout.readline().decode())
        assert found
        with urllib.request.urlopen(found[0]) as answer:
            assert b"<article" in answer.read()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (out.decode().strip(), err.decode()) == ("Ended.", "")
    finally:
        process.kill()


def test_what_cannot_be_listened_to_is_told_in_a_sentence(tmp_path: Path, fail: Fail) -> None:
    folder = write_tpi(tmp_path)
    assert "not a finished build" in fail(tmp_path / "nowhere")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "port" in fail(folder, "--port", taken.getsockname()[1])
    shard = next((folder / "data").glob("*.parquet"))
    whole = shard.read_bytes()
    shard.write_bytes(whole[: len(whole) // 2])
    assert shard.name in fail(folder)
    shard.unlink()
    assert shard.name in fail(folder)
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "manifest.json").write_text("{")
    assert "manifest.json" in fail(folder)
