"""What `vllm serve` is called with: command line, environment, devices, log."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from bystander.schemas.errors import EngineSetupError
from bystander.schemas.text_engine_configs import VllmTextConfig
from bystander.tasks.engines.user_folders import find_log_folder

_STRUCTURED_OUTPUTS = "--structured-outputs-config"
_NO_WHITE_SPACE = {"backend": "xgrammar", "disable_any_whitespace": True}
"""With free white space between parts of JSON, a model may loop in it until all its tokens are gone (vLLM 38696)."""
_OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "OMP_WAIT_POLICY")
"""Variables of this environment's Python, which must not reach into another's."""
DEVICES = "CUDA_VISIBLE_DEVICES"
API_KEY = "VLLM_API_KEY"


def list_command(config: VllmTextConfig) -> list[str]:
    """Return the words of the program."""
    words = [config.command] if isinstance(config.command, str) else list(config.command)
    return [str(Path(words[0]).expanduser()) if words[0].startswith("~") else words[0], *words[1:]]


def find_program(config: VllmTextConfig) -> str:
    """Return the path of the program.

    Raises:
        EngineSetupError: there is none.
    """
    name = list_command(config)[0]
    found = shutil.which(name)
    if found is None:
        raise EngineSetupError(
            f"vllm: no program {name!r}; install vLLM in an environment of its own (its requirements and Prefect's "
            "exclude each other) and give the path of its `vllm` as `command`"
        )
    return found


def build_command(config: VllmTextConfig, port: int) -> list[str]:
    """Return the command line of one replica."""
    words = [
        *list_command(config),
        "serve",
        str(Path(config.model).expanduser()) if config.model.startswith("~") else config.model,
        *("--served-model-name", config.model),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--tensor-parallel-size", str(config.tensor_parallel_size)),
        *("--gpu-memory-utilization", f"{config.gpu_memory_utilization:g}"),
        *("--dtype", config.dtype),
        *("--max-num-seqs", str(config.max_num_seqs)),
        *("--seed", str(config.seed)),
        "--enable-prefix-caching" if config.enable_prefix_caching else "--no-enable-prefix-caching",
        "--enable-prompt-tokens-details",
        "--disable-uvicorn-access-log",  # a line a request: a build makes a million
    ]
    given = {
        "--revision": config.revision or None,
        "--max-model-len": config.max_model_len,
        "--quantization": config.quantization,
        "--reasoning-parser": config.reasoning_parser,
    }
    for name, value in given.items():
        if value is not None:
            words += [name, str(value)]
    if not any(word.split("=")[0].split(".")[0] == _STRUCTURED_OUTPUTS for word in config.extra_args):
        words += [_STRUCTURED_OUTPUTS, json.dumps(_NO_WHITE_SPACE, separators=(",", ":"))]
    return [*words, *config.extra_args]


def build_environment(
    config: VllmTextConfig, program: str, devices: str | None, api_key: str, outer: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the variables of one replica: this process's without those of its Python, and what the settings add."""
    variables = {name: value for name, value in outer.items() if name not in _OURS}
    # Its kernels are compiled by programs of its own environment.
    variables["PATH"] = os.pathsep.join([str(Path(program).parent), outer.get("PATH", os.defpath)])
    if devices is not None:
        variables[DEVICES] = devices
    return {**variables, **config.environment, API_KEY: api_key}


def share_devices(config: VllmTextConfig, visible: str | None) -> list[str | None]:
    """Return CUDA_VISIBLE_DEVICES of each replica, None where it is left as it is.

    `visible` is this process's own, of which each replica gets `tensor_parallel_size`; None means all, from 0 on.

    Raises:
        EngineSetupError: fewer are visible than the replicas need.
    """
    if config.devices:
        return list(config.devices)
    if config.replicas == 1:
        return [None]
    size, needed = config.tensor_parallel_size, config.tensor_parallel_size * config.replicas
    names = [str(number) for number in range(needed)]
    if visible is not None:
        names = [name.strip() for name in visible.split(",") if name.strip()]
        if len(names) < needed:
            raise EngineSetupError(
                f"vllm: {config.replicas} replicas on {size} devices each need {needed}, and {DEVICES} names "
                f"{len(names)}; lower `replicas` or `tensor_parallel_size`, or name `devices`"
            )
    return [",".join(names[start : start + size]) for start in range(0, needed, size)]


def locate_log(config: VllmTextConfig, replica: int) -> Path:
    """Return the log of one replica of this process."""
    model = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(config.model).name)[:60]
    return find_log_folder(config.log_folder) / f"vllm-{model}-{os.getpid()}-{replica}.log"
