"""What a stage's fingerprint is made of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bystander.prompts.load import load_pack
from bystander.schemas.config import load_config
from bystander.schemas.errors import ConfigError
from bystander.schemas.speech_engine_configs import FakeSpeechConfig
from bystander.schemas.stage_job import StageJob
from bystander.tasks.engines.fake_speech import FakeSpeechEngine
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.stage_description import describe_stage
from bystander.tasks.stages import get_stage
from plain_chat import write_plain_pack


def describe(stage: str, folder: Path, **overrides: Any) -> dict[str, Any]:
    fields = {name.replace("__", "."): value for name, value in overrides.items()}
    config = load_config("fake", overrides={"store": str(folder / "store"), **fields})
    environment = StageEnvironment(StageJob.of(config))
    try:
        return describe_stage(get_stage(stage), environment)
    finally:
        environment.close()


def test_contents_of_the_noise_folder_are_part_of_the_fingerprint(tmp_path: Path) -> None:
    noises = tmp_path / "noises"
    (noises / "street").mkdir(parents=True)
    (noises / "street" / "cars.wav").write_bytes(b"one")

    def describe_mixing() -> dict[str, Any]:
        return describe("mix_speakers", tmp_path, stages__mix_speakers__noises=str(noises))

    first = describe_mixing()
    assert [name for name, _ in first["files"]] == ["noises/street/cars.wav"]
    os.utime(noises / "street" / "cars.wav", ns=(1, 1))
    assert describe_mixing() == first
    (noises / "street" / "cars.wav").write_bytes(b"two")
    changed = describe_mixing()
    assert changed != first
    (noises / "rain.wav").write_bytes(b"two")
    assert [name for name, _ in describe_mixing()["files"]] == ["noises/rain.wav", "noises/street/cars.wav"]


def test_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"stages\.mix_speakers\.noises: .* is not a folder"):
        describe("mix_speakers", tmp_path, stages__mix_speakers__noises=str(tmp_path / "none"))


def test_keys_of_classes_are_part_of_the_fingerprint_of_text_stages(tmp_path: Path) -> None:
    folder = write_plain_pack(tmp_path / "pack")
    manifest = folder / "pack.yaml"
    stages = ("write_interruptions", "label_actionability", "synthesise_speech")
    before = {stage: describe(stage, tmp_path, pack=str(folder)) for stage in stages}
    keys = [item.key for item in load_pack(str(folder)).classes]
    manifest.write_text(manifest.read_text().replace(f"key: {keys[0]}\n", "key: help_ful\n"))
    after = {stage: describe(stage, tmp_path, pack=str(folder)) for stage in stages}
    assert [stage for stage in stages if before[stage] != after[stage]] == [
        "write_interruptions",
        "label_actionability",
    ]


def test_number_of_fake_voices_is_part_of_the_fingerprint(tmp_path: Path) -> None:
    few, many = (describe("choose_voices", tmp_path, engines__speech__voices=count) for count in (4, 8))
    assert few != many
    assert FakeSpeechEngine(FakeSpeechConfig(voices=4)).identity.settings == (("voices", "4"),)
