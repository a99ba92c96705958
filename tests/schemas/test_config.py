from __future__ import annotations

from typing import Any

import pytest

from bystander.schemas.config import TpiTrainConfig, load_config
from bystander.schemas.errors import ConfigError

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
