"""Names of models on the hub: a hub that does not answer is told within seconds, without the client's retries."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from huggingface_hub import constants

from bystander.schemas.errors import EngineSetupError
from bystander.tasks.engines.hub_models import reach_hub_model
from bystander.tasks.engines.pretrained_files import PretrainedFiles

ASKED: list[str] = []
"""Requests that the hub of `hub` was asked, a method and a path each."""
ERRORS = {"someone/gone": (404, "RepoNotFound"), "someone/gated": (403, "GatedRepo"), "someone/ill": (503, "")}


class Hub(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        ASKED.append(f"{self.command} {self.path}")
        status, code = next((error for name, error in ERRORS.items() if name in self.path), (200, ""))
        if "/nowhere/" in self.path:
            status, code = 404, "RevisionNotFound"
        self.send_response(status)
        for name, value in (("X-Error-Code", code), ("X-Repo-Commit", "c" * 40), ("ETag", '"e"')):
            if value:
                self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache of the hub's client; `HF_HUB_OFFLINE` is unset."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 5)
    return tmp_path / "hub"


def point_to(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    address = f"http://127.0.0.1:{port}"
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")


@pytest.fixture
def hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A hub that answers each question by its model's name; returns the cache."""
    server = HTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    point_to(monkeypatch, server.server_port)
    ASKED.clear()
    yield cache
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def silent_hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No server at the hub's address; returns the cache."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        point_to(monkeypatch, place.getsockname()[1])
    return cache


def keep(cache: Path, model: str, *names: str) -> None:
    """Keep files of a model as the hub's client does."""
    folder = cache / f"models--{model.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("c" * 40)
    (folder / "snapshots" / ("c" * 40)).mkdir(parents=True)
    for name in names:
        (folder / "snapshots" / ("c" * 40) / name).write_text('{"model_type": "whisper"}')


def test_a_hub_that_answers_is_asked_once(hub: Path) -> None:
    assert reach_hub_model("someone/model", "main")
    assert ASKED == ["HEAD /someone/model/resolve/main/config.json"]


@pytest.mark.parametrize(
    ("model", "revision", "words"),
    [
        ("someone/gone", None, "there is no such folder, and no such model on the hub that this user may see"),
        ("someone/gated", None, "agree on its page, and log in with `hf auth login` or set HF_TOKEN"),
        ("someone/model", "nowhere", "the hub has no revision nowhere of it"),
        ("someone/ill", None, "and the hub answers 503; name its folder on this machine"),
        ("folder/of/mine", None, "there is no such folder, and no model on the hub can have that name"),
    ],
)
def test_what_the_hub_does_not_give_is_said(hub: Path, model: str, revision: str | None, words: str) -> None:
    with pytest.raises(EngineSetupError, match=f"^{model}: .*{re.escape(words)}"):
        reach_hub_model(model, revision)
    assert len(ASKED) == (model != "folder/of/mine")


def test_a_silent_hub_is_an_error_that_says_how_to_give_a_folder(silent_hub: Path) -> None:
    words = r"^someone/model: .* nothing of a model of that name is kept on this machine, and the hub cannot be reached"
    for ask in (reach_hub_model, lambda model: PretrainedFiles(model).find("config.json")):
        with pytest.raises(
            EngineSetupError, match=rf"{words} \(.+\); .*`hf download someone/model --local-dir FOLDER`"
        ):
            ask("someone/model")


def test_what_is_kept_is_taken_where_the_hub_is_silent(silent_hub: Path) -> None:
    keep(silent_hub, "someone/model", "config.json")
    assert not reach_hub_model("someone/model")
    files = PretrainedFiles("someone/model")
    assert files.read_json("config.json") == {"model_type": "whisper"}
    assert files.options == {"local_files_only": True}
    assert files.find("model.safetensors") is None
    with pytest.raises(EngineSetupError, match=r"what is kept of it on this machine has no model\.safetensors"):
        files.read_part("encoder.")


def test_nobody_is_asked_where_that_is_forbidden(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(EngineSetupError, match="and HF_HUB_OFFLINE is set; name its folder on this machine"):
        reach_hub_model("someone/model")
    keep(hub, "someone/other", "config.json")
    assert not reach_hub_model("someone/other")
    assert not ASKED


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("raise OSError('libcudart.so.12: cannot open shared object file')", "libcudart.so.12: cannot open shared"),
        ("raise ImportError('undefined symbol: ncclCommInit\\nin torch')", "undefined symbol: ncclCommInit in torch"),
        ("import nothing_of_that_name", "No module named 'nothing_of_that_name'"),
        ("raise AttributeError", "AttributeError"),
    ],
)
def test_a_broken_package_is_one_line_with_its_cause(tmp_path: Path, source: str, cause: str) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(source)
    program = (
        "import sys; from bystander.cli import main\n"
        "sys.argv = ['bystander', 'train', 'mixtures', '--data', 'a', '--bench', 'b', '--dyadic', 'c']\n"
        f"sys.path.insert(0, {str(tmp_path)!r}); main.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert done.stderr.startswith("error: training needs torch, which is installed and cannot be loaded (")
    assert cause in done.stderr
    assert done.stderr.endswith("); install it anew: pip install --force-reinstall torch\n")
