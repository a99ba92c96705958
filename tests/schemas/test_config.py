from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bystander.schemas.config import (
    TpiBenchConfig,
    TpiTrainConfig,
    list_profiles,
    load_bench_config,
    load_config,
    read_profile,
    resize,
)
from bystander.schemas.errors import ConfigError
from bystander.schemas.sid_config import SidBenchConfig, load_sid_config
from bystander.tasks.audio.coding import encode_flac

SERVER = {"engine": "openai", "base_url": "http://one/v1", "model": "m"}


def load(**overrides: Any) -> TpiTrainConfig:
    return load_config("fake", overrides={name.replace("__", "."): value for name, value in overrides.items()})


@pytest.mark.parametrize(
    "other",
    [
        {"workers": 9},
        {"partition_rows": 9},
        {"store": "elsewhere"},
        {"engines__writer": {**SERVER, "base_url": "http://two/v1", "timeout_s": 9, "max_in_flight": 9}},
    ],
)
def test_what_changes_the_speed_only_does_not_name_another_build(other: dict[str, Any]) -> None:
    base = load(engines__writer=SERVER)
    assert load(**{"engines__writer": SERVER, **other}).build_name == base.build_name


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 9},
        {"engines__writer": {**SERVER, "model": "n"}},
        {"engines__writer": {**SERVER, "reasoning_tokens": 9}},
        {"engines__judge": SERVER},
        {"stages__mix_speakers__offset_sd_s": 0},
    ],
)
def test_what_changes_the_rows_names_another_build(other: dict[str, Any]) -> None:
    base = load(engines__writer=SERVER)
    assert load(**{"engines__writer": SERVER, **other}).build_name != base.build_name


def test_threshold_that_is_no_probability_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"stages\.label_actionability\.thresholds\.actionable: .* less than 1"):
        load(stages__label_actionability__thresholds={"actionable": 63})


def test_profiles_with_the_same_voices_share_their_calibration() -> None:
    assert list_profiles() == ["fake", "laptop", "paper", "playbook"]
    laptop, playbook = load_config("laptop"), load_config("playbook")
    for stage in ("choose_voices", "synthesise_speech", "verify_speakers", "verify_mixture"):
        assert getattr(laptop.stages, stage) == getattr(playbook.stages, stage)
    assert len(laptop.stages.choose_voices.avoid_pairs) == 13
    assert laptop.stages.verify_mixture.max_pair_similarity == 0.66
    assert laptop.engines.speech == playbook.engines.speech
    # What is calibrated on one writer is not passed on to another.
    assert laptop.stages.label_actionability.thresholds == {"actionable": 0.65}
    assert playbook.stages.label_actionability.thresholds == {}


def write_profiles(folder: Path, **files: str) -> Path:
    (folder / "shared").mkdir()
    for name, text in files.items():
        (folder / f"{name.replace('__', '/')}.yaml").write_text(text, "utf-8")
    return folder


def test_profile_is_laid_over_what_it_extends(tmp_path: Path) -> None:
    folder = write_profiles(
        tmp_path,
        mine="extends: common\nworkers: 3\nstages: {mix_speakers: {offset_sd_s: 0}}\n",
        shared__common="workers: 1\nseed: 9\nstages: {mix_speakers: {offset_mean_s: -1}}\n",
    )
    assert read_profile("mine", folder) == {
        "workers": 3,
        "seed": 9,
        "stages": {"mix_speakers": {"offset_mean_s": -1, "offset_sd_s": 0}},
    }
    with pytest.raises(ConfigError, match=r"no profile 'common'; there are mine$"):
        read_profile("common", folder)


def test_profile_that_extends_what_is_not_there_or_extends_again_is_refused(tmp_path: Path) -> None:
    folder = write_profiles(
        tmp_path,
        lost="extends: nothing",
        deep="extends: middle",
        shared__middle="extends: base",
        shared__base="seed: 1",
    )
    with pytest.raises(ConfigError, match=r"profile 'lost' extends 'nothing'; there are base, middle$"):
        read_profile("lost", folder)
    with pytest.raises(ConfigError, match="profile 'deep' extends 'middle', which extends another; only one level"):
        read_profile("deep", folder)


def test_thresholds_of_a_profile_are_replaced_whole() -> None:
    thresholds = {"helpful": 0.4}
    config = load_config("laptop", overrides={"stages.label_actionability.thresholds": thresholds})
    assert config.stages.label_actionability.thresholds == thresholds


@pytest.mark.parametrize("rate", [8000, 44_100, 65_535, 65_540, 192_000])
def test_sampling_rate_that_flac_takes_is_taken(rate: int) -> None:
    assert load(stages__mix_speakers__sampling_rate=rate).stages.mix_speakers.sampling_rate == rate
    assert encode_flac(np.zeros(100, np.int16), rate)[:4] == b"fLaC"


@pytest.mark.parametrize("profile", list_profiles())
def test_every_profile_makes_train_builds_and_benches_that_share_no_voices(profile: str) -> None:
    train, bench = load_config(profile), load_bench_config(profile)
    assert (train.dataset, bench.dataset) == ("tpi-train", "tpi-bench")
    assert (train.stages.choose_voices.use, bench.stages.choose_voices.use) == ("rest", "held_out")
    assert train.stages.choose_voices.hold_out == bench.stages.choose_voices.hold_out
    assert bench.stages.synthesise_speech.max_wer == 0
    assert bench.stages.build_hard_negatives == train.stages.build_hard_negatives
    assert bench.stages.mix_speakers == train.stages.mix_speakers
    targets = bench.targets
    assert 3 * targets.labels["ignorable"] == 2 * targets.labels["actionable"]
    assert targets.hard_negatives == targets.pairs


def test_a_bench_is_by_default_that_of_the_paper() -> None:
    bench = TpiBenchConfig.model_validate({"engines": load().engines.model_dump()})
    assert bench.targets.labels == {"actionable": 1200, "ignorable": 800}
    assert bench.targets.hard_negatives == 2000
    assert bench.stages.build_hard_negatives.min_ambiguity == 4.0
    assert resize(bench, 40).targets == type(bench.targets)(
        labels={"actionable": 12, "ignorable": 8}, hard_negatives=20
    )


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n"])
def test_an_empty_file_sets_no_field(tmp_path: Path, text: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text, "utf-8")
    assert load_config("fake", [str(file)]) == load_config("fake")


def test_the_highest_seed_is_taken() -> None:
    assert load(seed=2**63 - 1).seed == 2**63 - 1


def test_word_errors_are_refused_in_a_bench() -> None:
    with pytest.raises(ConfigError, match=r"stages: .*synthesise_speech\.max_wer must be 0 in a bench, .* not 0\.1"):
        load_bench_config("laptop", overrides={"stages.synthesise_speech.max_wer": 0.1})


def test_the_bench_section_of_a_file_holds_for_benches_only_and_after_its_other_fields(tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("seed: 1\nbench: {seed: 2, stages: {choose_voices: {use: all}}}\n", "utf-8")
    second.write_text("stages: {choose_voices: {use: rest}}\n", "utf-8")
    assert load_config("fake", [str(first)]).seed == 1
    bench = load_bench_config("fake", [str(first)])
    assert (bench.seed, bench.stages.choose_voices.use) == (2, "all")
    # A later file's plain fields come after an earlier one's section.
    assert load_bench_config("fake", [str(first), str(second)]).stages.choose_voices.use == "rest"
    first.write_text("bench: [1]\n", "utf-8")
    with pytest.raises(ConfigError, match=r"first\.yaml: bench must be a mapping of fields"):
        load_config("fake", [str(first)])


def test_overrides_of_one_mapping_add_up() -> None:
    config = load_config("laptop", overrides={"targets.labels.actionable": 6, "targets.labels.ignorable": 4})
    assert config.targets.labels == {"actionable": 6, "ignorable": 4}
    config = load_config("laptop", overrides={"targets.labels.actionable": 6})
    assert config.targets.labels == {"actionable": 6}
    engine = {"engine": "openai", "base_url": "http://127.0.0.1:1/v1"}
    config = load_config("laptop", overrides={"engines.writer": engine, "engines.writer.model": "some-model"})
    assert (config.engines.writer.engine, config.engines.writer.model) == ("openai", "some-model")


def test_how_an_address_is_spelt_decides_the_derived_name_and_no_content() -> None:
    one = load_config("fake", overrides={"queries.path": "more.jsonl", "on_top_of.build": "store/tpi-train/base"})
    other = load_config(
        "fake", overrides={"queries.path": "/a/more.jsonl", "on_top_of.build": "/a/store/tpi-train/base"}
    )
    assert one.content_digest() == other.content_digest()
    assert one.build_name != other.build_name
    only = load_config("fake", overrides={"on_top_of.build": "store/tpi-train/base", "on_top_of.rows": "only"})
    column = load_config("fake", overrides={"queries.path": "more.jsonl", "queries.text_column": "q"})
    assert len({one.content_digest(), only.content_digest(), column.content_digest()}) == 3


def test_how_an_address_of_recordings_is_spelt_decides_no_content() -> None:
    one = load_sid_config(SidBenchConfig, "fake", overrides={"recordings.path": "calls"})
    other = load_sid_config(SidBenchConfig, "fake", overrides={"recordings.path": "/a/calls"})
    assert one.content_digest() == other.content_digest()
    assert one.build_name != other.build_name
    licence = load_sid_config(SidBenchConfig, "fake", overrides={"recordings.licence": "CC0-1.0"})
    assert licence.content_digest() != one.content_digest()
