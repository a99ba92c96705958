from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import ValidationError

from bystander.schemas.errors import EngineSetupError
from bystander.schemas.text_engine_configs import VllmTextConfig
from bystander.tasks.engines.guarded_process import pick_lines
from bystander.tasks.engines.vllm_command import build_command, build_environment, locate_log, share_devices


def make(**fields: object) -> VllmTextConfig:
    return VllmTextConfig(**{"model": "org/model", **fields})  # type: ignore[arg-type]


def test_command_says_all_that_is_set():
    config = make(
        command=("python", "-m", "vllm"),
        revision="abc",
        tensor_parallel_size=4,
        max_model_len=8192,
        quantization="fp8",
        reasoning_parser="qwen3",
        enable_prefix_caching=False,
        seed=7,
        extra_args=("--kv-cache-dtype", "fp8"),
    )
    words = build_command(config, 8123)
    assert words[:5] == ["python", "-m", "vllm", "serve", "org/model"]
    assert words[-2:] == ["--kv-cache-dtype", "fp8"]
    given = dict(pairwise(words))
    assert {name: given[name] for name in given if name.startswith("--")} == {
        "--served-model-name": "org/model",
        "--host": "127.0.0.1",
        "--port": "8123",
        "--tensor-parallel-size": "4",
        "--gpu-memory-utilization": "0.9",
        "--dtype": "auto",
        "--max-num-seqs": "128",
        "--seed": "7",
        "--no-enable-prefix-caching": "--enable-prompt-tokens-details",
        "--enable-prompt-tokens-details": "--disable-uvicorn-access-log",
        "--disable-uvicorn-access-log": "--revision",
        "--revision": "abc",
        "--max-model-len": "8192",
        "--quantization": "fp8",
        "--reasoning-parser": "qwen3",
        "--structured-outputs-config": '{"backend":"xgrammar","disable_any_whitespace":true}',
        "--kv-cache-dtype": "fp8",
    }


@pytest.mark.parametrize("word", ["--structured-outputs-config", "--structured-outputs-config.backend=guidance"])
def test_own_settings_of_structured_outputs_replace_ours(word):
    assert (
        sum(given.startswith("--structured-outputs-config") for given in build_command(make(extra_args=(word,)), 1))
        == 1
    )


def test_what_is_not_set_is_left_to_vllm():
    assert not {"--revision", "--max-model-len", "--quantization", "--reasoning-parser"} & set(build_command(make(), 1))


def test_another_pythons_environment_is_kept_apart():
    outer = {"PATH": "/usr/bin", "PYTHONPATH": "/ours", "VIRTUAL_ENV": "/ours", "HF_HOME": "/models", "X": "1"}
    found = build_environment(make(environment={"X": "2"}), "/other/bin/vllm", "0,1", "key", outer)
    assert found == {
        "PATH": "/other/bin:/usr/bin",
        "HF_HOME": "/models",
        "X": "2",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "VLLM_API_KEY": "key",
    }
    assert "CUDA_VISIBLE_DEVICES" not in build_environment(make(), "/other/bin/vllm", None, "key", outer)


@pytest.mark.parametrize(
    ("fields", "visible", "shares"),
    [
        ({}, None, [None]),
        ({}, "3", [None]),
        ({"replicas": 2}, None, ["0", "1"]),
        ({"replicas": 2, "tensor_parallel_size": 2}, None, ["0,1", "2,3"]),
        ({"replicas": 2, "tensor_parallel_size": 2}, "4,5,6,7", ["4,5", "6,7"]),
        ({"replicas": 2}, "GPU-a, GPU-b, GPU-c", ["GPU-a", "GPU-b"]),
        ({"replicas": 2, "devices": ("7", "0")}, "1", ["7", "0"]),
        ({"devices": ("5",)}, None, ["5"]),
    ],
)
def test_each_replica_has_devices_of_its_own(fields, visible, shares):
    assert share_devices(make(**fields), visible) == shares


def test_too_few_devices():
    with pytest.raises(EngineSetupError, match="2 replicas on 2 devices each need 4, and CUDA_VISIBLE_DEVICES names 3"):
        share_devices(make(replicas=2, tensor_parallel_size=2), "0,1,2")


def test_log_is_in_the_users_state_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert locate_log(make(), 1).parent == tmp_path / "bystander" / "logs"
    assert len({locate_log(make(model=model), number) for model in ("a/m", "a/n") for number in (0, 1)}) == 4
    monkeypatch.delenv("XDG_STATE_HOME")
    assert locate_log(make(), 1).parent == Path.home() / ".local" / "state" / "bystander" / "logs"
    assert locate_log(make(log_folder=str(tmp_path)), 1).parent == tmp_path


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"replicas": 2, "devices": ("0",)}, "1 are named for 2 replicas"),
        ({"reasoning_tokens": 100}, "reasoning_parser: a model that thinks"),
        ({"reasoning_tokens": 4096, "reasoning_parser": "qwen3", "max_model_len": 4096}, "no room in max_model_len"),
        ({"port": 65_535, "replicas": 2}, "no 2 ports from 65535 on"),
        ({"command": ""}, "command: is empty"),
        ({"command": ("python", "")}, "command: is empty"),
    ],
)
def test_settings_that_do_not_fit_together(fields, words):
    with pytest.raises(ValidationError, match=words):
        make(**fields)


def test_no_server_is_ever_short_of_requests():
    assert make(max_num_seqs=100).in_flight == 125
    assert make(max_num_seqs=1).in_flight == 2
    assert make(max_num_seqs=100, max_in_flight=10).in_flight == 10


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("", "(its log is empty)"),
        ("one\n\n----\ntwo\n", "one / two"),
        (
            "(APIServer pid=1) ValueError: bad model\n"
            + "frame\n" * 9
            + "ValueError: bad model\nRuntimeError: see above",
            "ValueError: bad model / frame / frame / ValueError: bad model / RuntimeError: see above",
        ),
        ("vllm serve: error: unrecognized arguments: --foo", "vllm serve: error: unrecognized arguments: --foo"),
    ],
)
def test_lines_that_say_why_a_program_ended(log, said):
    assert pick_lines(log) == said
