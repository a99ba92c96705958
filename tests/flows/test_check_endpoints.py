"""What is seen of model servers before the work starts."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

import pytest

from bystander.flows.check_endpoints import check_model_server
from bystander.flows.listeners import SilentListener, listening
from bystander.schemas.engine_configs import OpenAiAudioConfig
from bystander.schemas.errors import ConfigError, EngineSetupError
from bystander.schemas.speech_engine_configs import ChatterboxSpeechConfig
from bystander.schemas.text_engine_configs import FakeTextConfig, OpenAiTextConfig, VllmBatchTextConfig, VllmTextConfig
from tasks.engines.scripted_chat_server import answer_well, serve_script

NOWHERE = "http://127.0.0.1:9/v1"


class Phases(SilentListener):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_phase(self, phase: str) -> None:
        self.heard.append(phase)


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def phases() -> Iterator[Phases]:
    listener = Phases()
    with listening(listener):
        yield listener


def test_one_that_answers_is_enough_and_the_others_are_told(phases):
    with serve_script(answer_well, models=["m"]) as server:
        check_model_server(OpenAiTextConfig(base_url=(NOWHERE, server.base_url), model="m"), "judge j")
    assert phases.heard == [
        f"judge j at {NOWHERE}: cannot be reached (Connection refused); it is left out until it answers"
    ]


def test_speech_workers_that_run_elsewhere(phases):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there = f"127.0.0.1:{listener.getsockname()[1]}"
        check_model_server(ChatterboxSpeechConfig(bank="b", model="tone", endpoints=(there, "127.0.0.1:9")))
    assert phases.heard == ["speech workers: 127.0.0.1:9: Connection refused; left out until they answer"]
    with pytest.raises(
        ConfigError, match=r"none of engines\.speech\.endpoints can be reached \(127\.0\.0\.1:9: Connection"
    ):
        check_model_server(ChatterboxSpeechConfig(bank="b", model="tone", endpoints=("127.0.0.1:9",)))


def test_a_program_for_batches_that_is_not_there():
    with pytest.raises(EngineSetupError, match="no program 'no-such-vllm'; name that of vLLM's environment"):
        check_model_server(VllmBatchTextConfig(model="m", command="no-such-vllm"))
    check_model_server(VllmBatchTextConfig(model="m", command="no-such-vllm", mode="files", folder="batches"))


def test_none_that_answers():
    other = "http://127.0.0.1:1/v1"
    with pytest.raises(ConfigError) as caught:
        check_model_server(OpenAiTextConfig(base_url=(NOWHERE, other), model="m"))
    assert str(caught.value) == (
        f"text engine: none of its 2 addresses answers ({NOWHERE}: cannot be reached (Connection refused); "
        f"{other}: cannot be reached (Connection refused)); are they running there?"
    )


@pytest.mark.parametrize("config", [OpenAiTextConfig, OpenAiAudioConfig])
def test_one_that_serves_another_model_is_an_error_wherever_it_stands(phases, config):
    with serve_script(answer_well, models=["m"]) as one, serve_script(answer_well, models=["x", "y"]) as two:
        with pytest.raises(ConfigError, match=rf"{two.base_url}: it serves x, y, not 'm'; check `model`"):
            check_model_server(config(base_url=(one.base_url, two.base_url), model="m"))
        check_model_server(config(base_url=one.base_url, model="m"))
    assert phases.heard == []


def test_server_that_does_not_list_its_models_may_be_right():
    with serve_script(answer_well) as server:
        check_model_server(OpenAiTextConfig(base_url=server.base_url, model="m"))


@pytest.mark.parametrize("address", ["localhost:8000", "x", "ftp://h/v1", "http://", "http://h:port/v1"])
def test_what_is_no_address(address):
    with pytest.raises(ConfigError, match="not an address; write it like http://localhost:8000/v1"):
        check_model_server(OpenAiTextConfig(base_url=(NOWHERE, address), model="m"))


def test_vllm_is_looked_for_and_its_log_is_told(phases, tmp_path):
    config = VllmTextConfig(model="org/model", command=sys.executable, replicas=2, log_folder=str(tmp_path))
    check_model_server(config, "text engine")
    (said,) = phases.heard
    assert said.startswith("text engine: vllm serve org/model starts 2 times at the first call; its log is ")
    assert str(tmp_path) in said
    with pytest.raises(EngineSetupError, match="no program 'no-such-vllm'"):
        check_model_server(config.model_copy(update={"command": "no-such-vllm"}))
    with pytest.raises(ConfigError, match="no folder /no/such/model"):
        check_model_server(config.model_copy(update={"model": "/no/such/model"}))


def test_other_engines_have_no_server(phases):
    check_model_server(FakeTextConfig())
    assert phases.heard == []
