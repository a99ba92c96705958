"""Lock files, images and the compose file: what they name is there, and fits together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
LOCKS = sorted(ROOT.glob("envs/*/requirements.lock"))
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
REQUIREMENT = re.compile(r"[a-z0-9][a-z0-9._-]*==[A-Za-z0-9.!+]+( ; .+)?")


def list_settings(path: Path) -> set[str]:
    return set(re.findall(r"^([A-Z0-9_]+)=", path.read_text("utf-8"), re.MULTILINE))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.parent.name)
def test_locks_hold_versions_and_nothing_else(lock: Path) -> None:
    lines = lock.read_text("utf-8").splitlines()
    assert len(lines) > 20
    assert [line for line in lines if not REQUIREMENT.fullmatch(line)] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.parent.name)
def test_locks_hold_what_is_asked_for(lock: Path) -> None:
    asked = (lock.parent / "requirements.in").read_text("utf-8").splitlines()
    pinned = {line for line in asked if "==" in line and not line.startswith("#")}
    assert pinned
    assert pinned <= set(lock.read_text("utf-8").splitlines())


def test_whisper_fits_onto_the_core() -> None:
    def read(path: Path) -> dict[str, str]:
        return dict(line.split("==", 1) for line in path.read_text("utf-8").splitlines() if "==" in line)

    core, added = read(ROOT / "requirements.lock"), read(ROOT / "envs" / "whisper" / "requirements.lock")
    assert {name for name in core.keys() & added.keys() if core[name] != added[name]} == set()


def test_speech_worker_has_no_prefect() -> None:
    assert not re.search(r"^(prefect|vllm)==", (ROOT / "envs/chatterbox/requirements.lock").read_text("utf-8"), re.M)


def test_images_copy_only_what_the_context_has() -> None:
    ignore = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    let_in = {line[1:] for line in ignore if line.startswith("!")}
    for copied in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE):
        for source in copied.split()[:-1]:
            assert any(source == path or source.startswith(f"{path}/") for path in let_in), source
            assert source.startswith("src/") or (ROOT / source).exists(), source


def test_no_image_runs_as_root() -> None:
    stages = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]
    final = {"controller", "tts-worker", "vllm"}  # the other controllers are made from the first
    for stage in stages:
        name = stage.splitlines()[0].rpartition(" AS ")[2]
        if name in final:
            final.remove(name)
            assert re.findall(r"^USER (.+)$", stage, re.MULTILINE)[-1] == "10001"
            assert "HEALTHCHECK" in stage
    assert not final


def test_services_are_built_from_targets_that_there_are() -> None:
    targets = set(re.findall(r"^FROM .+ AS (\S+)$", DOCKERFILE, re.MULTILINE))
    built = {name: service["build"]["target"] for name, service in COMPOSE["services"].items() if "build" in service}
    assert set(built.values()) <= targets
    images: dict[str, set[str]] = {}
    for name, target in built.items():
        images.setdefault(COMPOSE["services"][name]["image"], set()).add(target)
    assert all(len(of) == 1 for of in images.values())


def test_services_wait_for_services_that_there_are() -> None:
    services = COMPOSE["services"]
    for service in services.values():
        for other in service.get("depends_on", {}):
            assert other in services
    named = {str(volume).split(":")[0] for service in services.values() for volume in service.get("volumes", [])}
    assert {name for name in named if not name.startswith(("/", ".", "$"))} <= set(COMPOSE["volumes"])


def test_every_setting_of_the_compose_file_is_in_the_example() -> None:
    used = set(re.findall(r"\$\{([A-Z0-9_]+)", (ROOT / "compose.yaml").read_text("utf-8")))
    assert used == list_settings(ROOT / "docker" / "example.env")


def test_engines_of_the_compose_file_fit_the_paper_profile() -> None:
    from bystander.schemas.config import load_config
    from bystander.schemas.text_engine_configs import OpenAiTextConfig

    config = load_config("paper", [str(ROOT / "docker" / "engines.yaml")])
    for role in ("writer", "judge"):
        engine = getattr(config.engines, role)
        assert isinstance(engine, OpenAiTextConfig)
        assert role in str(engine.base_url)
        command = " ".join(COMPOSE["services"][role]["command"])
        assert f"--served-model-name={engine.model} " in command
        # vLLM holds thoughts to the answer's schema unless it is told how the model marks them.
        assert ("--reasoning-parser" in command) == bool(engine.reasoning_tokens)
