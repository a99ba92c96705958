from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.schemas.detector_configs import (
    DETECTORS,
    EnergyVadConfig,
    FakeDetectorConfig,
    KConsecutiveConfig,
    SidEvaluationEngines,
    SileroVadConfig,
    SmartTurnConfig,
    TenVadConfig,
    WebrtcVadConfig,
    parse_detectors,
)
from bystander.schemas.errors import ConfigError
from bystander.schemas.field_types import NAME


def test_names_alone_are_the_defaults_in_order():
    assert parse_detectors("webrtc_vad, energy_vad,silero_vad") == {
        "webrtc_vad": WebrtcVadConfig(),
        "energy_vad": EnergyVadConfig(),
        "silero_vad": SileroVadConfig(),
    }
    alone = [name for name in DETECTORS if name not in ("recurrent", "sid_lm")]  # those need the folder of a model
    assert list(parse_detectors(",".join(alone))) == alone
    with pytest.raises(ConfigError, match="'sid_lm': model: Field required"):
        parse_detectors("sid_lm")


def test_k_wraps_what_follows():
    assert parse_detectors("k3:ten_vad") == {"k3-ten_vad": KConsecutiveConfig(k=3, of=TenVadConfig())}


def test_settings_and_names_of_ones_own():
    assert parse_detectors("strict=k2:webrtc_vad:aggressiveness=3:frame_ms=30,loud=fake_detector:level=0.5") == {
        "strict": KConsecutiveConfig(k=2, of=WebrtcVadConfig(aggressiveness=3, frame_ms=30)),
        "loud": FakeDetectorConfig(level=0.5),
    }
    assert parse_detectors("smart_turn:model=/m/st.onnx:vad.engine=energy_vad:vad.margin_db=12") == {
        "smart_turn-model-m-st.onnx-vad.engine-energy_vad-vad.margin_db-12": SmartTurnConfig(
            model="/m/st.onnx", vad=EnergyVadConfig(margin_db=12)
        )
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "none named; there are energy_vad, webrtc_vad"),
        (" , ", "none named"),
        ("moshi", "no detector 'moshi'; there are energy_vad"),
        ("k3", "no detector 'k3'"),
        ("k3:k2:energy_vad", "no detector 'k2'"),
        ("energy_vad,energy_vad", "energy_vad is there twice; give one another name, as in other=energy_vad"),
        ("a=energy_vad,a=webrtc_vad", "a is there twice; give one another name, as in other=webrtc_vad"),
        ("../x=energy_vad", "the name '../x' will not do"),
        ("energy_vad:loud", "'loud' is no setting; write [NAME=][kN:]DETECTOR[:SETTING=VALUE]..."),
        ("energy_vad:loud=1", "loud: no such field; there are engine, floor_window_s"),
        ("energy_vad:frame_ms=1:frame_ms.x=2", "frame_ms is set twice"),
        ("energy_vad:margin_db=much", "margin_db: Input should be a valid number"),
        ("webrtc_vad:frame_ms=15", "frame_ms: Input should be 10, 20 or 30"),
        ("k0:energy_vad", "k: Input should be greater than or equal to 1"),
        ("silero_vad:threshold=nan", "threshold"),
    ],
)
def test_wrong_entries_are_one_line_that_says_what_there_is(text, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        parse_detectors(text)
    assert "\n" not in str(caught.value)


@given(st.text(alphabet="abk3:=,._-/ évad", max_size=40))
def test_any_text_is_detectors_with_fit_names_or_a_config_error(text):
    try:
        found = parse_detectors(text)
    except ConfigError:
        return
    assert all(re.match(NAME, name) for name in found)


@pytest.mark.parametrize("text", ["k3:smart_turn:vad.engine=ten_vad", "fsmn_vad:chunk_ms=100", "fake_detector"])
def test_configs_survive_json(text):
    (config,) = parse_detectors(text).values()
    engines = SidEvaluationEngines(detector=config)
    assert SidEvaluationEngines.model_validate_json(engines.model_dump_json()) == engines
