"""Mistakes in a task runner's settings are told before anything is started."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from bystander.flows.check_runner import check_runner
from bystander.flows.stage_workers import StageWorkers
from bystander.schemas.config import load_config
from bystander.schemas.engine_config import EngineConfig
from bystander.schemas.errors import ConfigError, EngineSetupError
from bystander.schemas.runner_configs import RayRunnerConfig, TaskRunnerConfig, ThreadsRunnerConfig, find_asks
from bystander.schemas.text_engine_configs import FakeTextConfig, VllmBatchTextConfig, VllmTextConfig

EXAMPLES = Path(__file__).parents[2] / "examples/runners"
_RUNNERS: TypeAdapter[Any] = TypeAdapter(TaskRunnerConfig)


@pytest.fixture
def port() -> Iterator[int]:
    """A port of this machine at which something listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bystander.flows.check_runner.find_spec", lambda name: name)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)


def check(kind: str, **fields: Any) -> None:
    check_runner(_RUNNERS.validate_python({"runner": kind, **fields}))


@pytest.mark.parametrize("kind", ["ray", "dask"])
def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr("bystander.flows.check_runner.find_spec", lambda name: None)
    with pytest.raises(EngineSetupError, match=rf"prefect-{kind} is not installed; pip install 'bystander\[{kind}\]'"):
        check(kind)
    check("threads")


@pytest.mark.parametrize(
    ("kind", "address", "message"),
    [
        ("ray", "127.0.0.1:1", r"no Ray cluster can be reached there \(Connection refused\); is it running\?"),
        ("dask", "tcp://127.0.0.1:1", r"no Dask cluster can be reached there"),
        ("dask", "gopher://host:1", r"not an address|no Dask cluster"),
        ("ray", "ray://:10001", r"not an address; write it like ray://head:10001"),
        ("ray", "host:what", r"not an address"),
    ],
)
def test_address_at_which_nothing_listens(kind: str, address: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check(kind, address=address)


def test_workers_elsewhere_need_a_prefect_server(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    check("dask", address=f"tcp://127.0.0.1:{port}")
    monkeypatch.setattr("bystander.flows.check_runner._is_this_machine", lambda host: False)
    with pytest.raises(ConfigError, match=r"report to a Prefect server that all of them reach; start one"):
        check("dask", address=f"tcp://127.0.0.1:{port}")
    monkeypatch.setenv("PREFECT_API_URL", "http://control:4200/api")
    check("dask", address=f"tcp://127.0.0.1:{port}")


def test_resources_are_of_stages_or_roles() -> None:
    check("ray", resources={"speech": {"num_gpus": 1}, "mix_speakers": {"num_cpus": 2}, "default": {}})
    with pytest.raises(ConfigError, match=r"runner\.resources\.speakable: is no stage, and no role"):
        check("ray", resources={"speakable": {"num_gpus": 1}})


def test_own_cluster_and_address_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match=r"num_cpus and num_gpus are for a cluster started here"):
        load_config("fake", (), {"runner": {"runner": "ray", "address": "a:1", "num_gpus": 1}})
    with pytest.raises(ConfigError, match=r"n_workers, .* are for a cluster started here"):
        load_config("fake", (), {"runner": {"runner": "dask", "address": "a:1", "n_workers": 1}})


def test_a_stage_asks_for_its_own_then_its_roles_then_the_default() -> None:
    table = {"default": 0, "speech": 1, "recogniser": 2, "mix_speakers": 3}
    assert find_asks(table, "mix_speakers", ["speech"]) == {"mix_speakers": 3}
    assert find_asks(table, "synthesise_speech", ["speech", "recogniser"]) == {"speech": 1, "recogniser": 2}
    assert find_asks(table, "draw_scenarios", []) == {"default": 0}
    assert find_asks({}, "draw_scenarios", []) == {}


def test_limits_are_those_of_shared_engines_where_each_process_has_its_own() -> None:
    usual: dict[Any, int] = {"writer": 2, "speech": 1}
    assert StageWorkers().limit_roles(usual) == usual
    assert StageWorkers(in_processes=True).limit_roles(usual) == {"writer": 2}
    given: dict[Any, int] = {"writer": 8, "speech": 3}
    assert StageWorkers(in_processes=True, partitions_at_engine=given).limit_roles(usual) == given


@pytest.mark.parametrize("engine", [VllmTextConfig(model="m"), VllmBatchTextConfig(model="m")])
def test_what_one_process_fills_the_gpus_with_is_not_for_many(engine: EngineConfig) -> None:
    check_runner(ThreadsRunnerConfig(), [engine])
    check_runner(RayRunnerConfig(), [FakeTextConfig()])
    with pytest.raises(ConfigError, match="every worker process of runner ray would start vLLM anew"):
        check_runner(RayRunnerConfig(), [FakeTextConfig(), engine])


@pytest.mark.parametrize("name", ["gpu-box", "ray-cluster", "dask-cluster"])
def test_examples_lay_over_a_profile(name: str) -> None:
    config = load_config("fake", [str(EXAMPLES / f"{name}.yaml")])
    assert config.build_name == load_config("fake").build_name
    assert config.workers > config.partitions_at_engine["speech"]
    check_runner(config.runner.model_copy(update={"address": None}))


def test_runner_changes_no_name_and_another_one_replaces_it_whole() -> None:
    threads = load_config("fake")
    ray = load_config("fake", (), {"runner": {"runner": "ray", "num_cpus": 4}, "partitions_at_engine.speech": 2})
    assert ray.build_name == threads.build_name
    assert ray.model_copy(update={"workers": 9}).content_digest() == threads.content_digest()
    with pytest.raises(ConfigError, match=r"runner: must say of which kind it is, in its field 'runner'"):
        load_config("fake", (), {"runner.num_cpus": 4})
    with pytest.raises(ConfigError, match=r"runner\.cpus: no such field; there are address, autoscales, num_cpus"):
        load_config("fake", (), {"runner": {"runner": "ray", "cpus": 4}})
