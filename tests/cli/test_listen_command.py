"""`bystander listen`: the server as a process of its own, and what the command says where there is nothing to hear."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bystander.cli.main import main
from bystander.storage.filesystem import open_store
from bystander.storage.releases import move_latest
from listening_builds import read_heard, write_heard
from study_samples import write_bench, write_evaluation

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr(sys, "argv", ["bystander", "listen", *map(str, arguments), "--no-open"])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capfd.readouterr()
        return end.value.code if isinstance(end.value.code, int) else 0, out, err

    return call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_heard(tmp_path / "store" / "tpi-train" / "demo", 4)


class Served:
    """A server in a process of its own."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "bystander.cli.main", "listen", *map(str, arguments), "--no-open"]
        self.process = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout is not None
        self.first = self.process.stdout.readline().decode().strip()
        found = re.search(r"http://\S+", self.process.stdout.readline().decode())
        assert found, self.process.communicate()[1].decode()
        self.url = found[0]

    def ask(self, path: str = "") -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(self.url.partition("?")[0] + path) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as exc:
            return exc.code, exc.read()

    def end(self, signum: int) -> tuple[int, str, str]:
        self.process.send_signal(signum)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out.decode(), err.decode()


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    started: list[Served] = []

    def start(*arguments: object) -> Served:
        started.append(Served(*arguments))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


def test_a_release_is_heard_until_ctrl_c(folder: Path, serve: Callable[..., Served]) -> None:
    move_latest(open_store(folder.parents[1]), "tpi-train", "demo", read_heard(folder).content_digest)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    server = serve(folder.parent / "latest")
    assert server.first == "4 rows and 5 rejects of tpi-train/demo"
    status, page = server.ask("?reject_reason=too_noisy")
    assert (status, page.count(b"<article")) == (200, 1)
    (source, _) = re.findall(rb'src="/(audio/[^"]+)"', page)
    status, clip = server.ask(source.decode())
    assert (status, clip[:4]) == (200, b"fLaC")
    assert server.end(signal.SIGINT) == (0, "Ended.\n", "")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_other_machines_need_a_token(folder: Path, serve: Callable[..., Served]) -> None:
    server = serve(folder, "--host", "0.0.0.0")
    (token,) = re.findall(r"\?token=([\w-]{20,})$", server.url)
    server.url = server.url.replace(server.url.split("/")[2].rsplit(":")[0], "127.0.0.1")
    assert server.ask()[0] == 401
    assert server.ask("audio/v/0/0")[0] == 401
    status, page = server.ask(f"?token={token}")
    assert (status, b"<article" in page) == (200, False)  # goes on to the page with the token in a cookie


def test_a_token_that_is_easily_guessed_is_refused(folder: Path, run: Run) -> None:
    code, out, err = run(folder, "--token", "1234")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "token" in err


def test_a_port_in_use_is_said(folder: Path, run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = run(folder, "--port", port)
    assert (code, out) == (2, "")
    said = f"error: 127.0.0.1:{port}: cannot be listened on (Address already in use); choose another --port or --host\n"
    assert err == said


def cut(shard: Path) -> None:
    shard.write_bytes(shard.read_bytes()[:1000])


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda build: shutil.rmtree(build), "manifest.json: is missing, so this is not a finished build"),
        (lambda build: (build / "manifest.json").write_text('{"kind": 3'), "manifest.json: is not a build manifest"),
        (lambda build: cut(next(build.glob("data/*"))), "-of-00001.parquet: cannot be read as Parquet (Parquet magic"),
        (lambda build: next(build.glob("data/*")).unlink(), "data/train-00000-of-00001.parquet: is missing"),
        (lambda build: cut(build / "rejects" / "verify_speakers.parquet"), "verify_speakers.parquet: cannot be read"),
        (lambda build: (build / "rejects" / "verify_speakers.parquet").unlink(), "verify_speakers.parquet: is missing"),
    ],
)
def test_what_cannot_be_heard_is_said_in_a_sentence(
    folder: Path, run: Run, harm: Callable[[Path], object], said: str
) -> None:
    harm(folder)
    code, out, err = run(folder, "--port", 0)
    assert (code, out, len(err.splitlines())) == (2 if "manifest" in said else 1, "", 1)
    assert err.startswith(f"error: {folder}/")
    assert said in err


def test_nothing_was_released_yet(folder: Path, run: Run) -> None:
    code, _, err = run(folder.parent / "latest", "--port", 0)
    assert code == 2
    assert err == f"error: {folder.parent}/latest: nothing was released there yet; name a build, or release one first\n"


def test_an_evaluation_is_no_build(tmp_path: Path, run: Run) -> None:
    bench = write_bench(tmp_path / "bench")
    evaluation = write_evaluation(tmp_path / "evaluation", bench)
    code, out, err = run(evaluation, "--port", 0)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert err.startswith(f"error: {evaluation}/manifest.json: is of another format (bystander-")
    assert "; name a build's folder" in err
