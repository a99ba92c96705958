#!/bin/sh
# Makes an environment in which the tests marked `chatterbox` run without a GPU:
#
#     envs/chatterbox/make_cpu_test_env.sh FOLDER [PYTHON]
#     BYSTANDER_CHATTERBOX_PYTHON=FOLDER/bin/python pytest -m chatterbox
#
# PYTHON (python3.11 by default) is 3.11 or 3.12. Where pip's index gives a CUDA build of torch, name one of CPU builds
# by PIP_EXTRA_INDEX_URL.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=$1
"${2:-python3.11}" -m venv "$folder"
pip="$folder/bin/python -m pip install --quiet --disable-pip-version-check"
$pip -r "$here/requirements-cpu-test.txt"
# Without what they require: they pin a torch that is built for CUDA, and gradio and pre-commit, which nothing imports.
$pip --no-deps chatterbox-tts==0.1.7 s3tokenizer==0.3.0 torchaudio==2.11.1
# The compiled parts of torchaudio's wheel load CUDA's libraries. Chatterbox uses its plain Python only, which does
# without them where they are missing.
find "$folder" -path '*/torchaudio/lib/*.so' -delete
"$folder/bin/python" -W ignore -c 'import chatterbox, perth; assert perth.PerthImplicitWatermarker; print(chatterbox.__version__)'
