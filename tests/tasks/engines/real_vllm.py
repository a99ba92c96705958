"""Real vLLM on the CPU with a random model, for tests; `envs/vllm-cpu` says how to get it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bystander.schemas.text_engine_configs import VllmTextConfig

PROGRAM = os.environ.get("BYSTANDER_VLLM", "")
NEEDS_VLLM = pytest.mark.skipif(not PROGRAM, reason="BYSTANDER_VLLM does not name vLLM's program")
SCRIPT = Path(__file__).parents[3] / "scripts" / "make_tiny_qwen3.py"
ON_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


def make_tiny_model(folder: Path) -> Path:
    """Make the random model with vLLM's own Python, and return its folder."""
    python = Path(PROGRAM).with_name("python")
    subprocess.run([python, SCRIPT, folder], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder


def make_real_config(model: Path, **fields: object) -> VllmTextConfig:
    given = {
        "model": str(model),
        "command": PROGRAM,
        "dtype": "bfloat16",
        "max_model_len": 2048,
        "max_num_seqs": 8,
        "environment": ON_CPU,
        "extra_args": ("--enforce-eager",),
        "log_folder": str(model.parent / "logs"),
        "startup_timeout_s": 900.0,
        **fields,
    }
    return VllmTextConfig(**given)  # type: ignore[arg-type]
