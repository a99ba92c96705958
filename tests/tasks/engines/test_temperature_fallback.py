from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from bystander.schemas.recogniser_configs import FasterWhisperConfig, OpenAiWhisperConfig, TemperatureFallback
from bystander.tasks.engines.temperature_fallback import (
    choose_candidate,
    choose_tokens,
    make_draws,
    needs_another,
    seed_clip,
)
from bystander.tasks.engines.whisper_settings import describe_rules

RULE = TemperatureFallback()


def test_unlikely_and_repetitive_texts_are_decoded_again_but_not_where_nobody_speaks() -> None:
    assert not needs_another("Turn it off.", -0.3, 0.1, RULE)
    assert needs_another("Turn it off.", -1.1, 0.1, RULE)
    assert needs_another("on and " * 20, -0.1, 0.1, RULE)
    assert not needs_another("on and " * 20, -1.1, 0.7, RULE)


def test_draws_are_the_clip_s_own() -> None:
    clip = np.linspace(-1, 1, 400, dtype=np.float32)
    seed = seed_clip(clip, "en")
    assert seed == seed_clip(np.repeat(clip, 2)[::2], "en")
    assert len({seed, seed_clip(clip, "zh"), seed_clip(clip[:-1], "en")}) == 3
    first = make_draws(seed, 0.2).random(3)
    assert np.array_equal(first, make_draws(seed, 0.2).random(3))
    assert not np.array_equal(first, make_draws(seed, 0.4).random(3))


@pytest.mark.parametrize("temperature", [0.2, 1.0])
def test_tokens_come_as_often_as_their_probability_says(temperature: float) -> None:
    logits = np.array([0.1, -2.0, 1.3, -np.inf, 0.7], np.float32)
    draws = (np.arange(10_000) + 0.5) / 10_000
    tokens, logprobs = choose_tokens(np.tile(logits, (len(draws), 1)), temperature, draws)
    shares = np.bincount(tokens, minlength=5) / len(draws)
    expected = np.exp(logits / temperature) / np.exp(logits / temperature).sum()
    assert shares == pytest.approx(expected, abs=1e-3)
    untempered = logits - np.log(np.exp(logits).sum())
    assert logprobs[:3] == pytest.approx(untempered[tokens[:3]], abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(
    logits=st.lists(st.floats(-50, 50, width=32), min_size=2, max_size=20),
    suppressed=st.integers(0, 19),
    temperature=st.sampled_from([0.01, 0.2, 1.0]),
    draw=st.floats(0, 1, exclude_max=True),
)
def test_a_suppressed_token_is_never_drawn(
    logits: list[float], suppressed: int, temperature: float, draw: float
) -> None:
    row = np.array(logits, np.float32)
    row[suppressed % len(row)] = np.finfo(np.float32).min  # what CTranslate2 writes
    (token,), (logprob,) = choose_tokens(row[None], temperature, np.array([draw]))
    assert 0 <= token < len(row)
    assert token != suppressed % len(row)
    assert np.isfinite(logprob)
    assert logprob <= 1e-9


def test_the_likeliest_candidate_a_token_is_chosen() -> None:
    assert choose_candidate([-4.0, -4.5, -9.0], [4, 9, 9]) == 1
    assert choose_candidate([-1.0, -1.0], [1, 1]) == 0
    assert choose_candidate([-3.0, -2.0], [1, 0]) == 1


def test_temperatures_rise_and_devices_are_named_once() -> None:
    for wrong in ((), (0.0, 0.2), (0.4, 0.2), (0.2, 0.2), (3.0,)):
        with pytest.raises(ValidationError, match="temperatures must be above 0"):
            TemperatureFallback(temperatures=wrong)
    with pytest.raises(ValidationError, match="at least 1 item"):
        OpenAiWhisperConfig(devices=())
    with pytest.raises(ValidationError, match="device_index must name each GPU once"):
        FasterWhisperConfig(device="cuda", device_index=(0, 0))
    with pytest.raises(ValidationError, match="device_index is for GPUs; set device to cuda"):
        FasterWhisperConfig(device_index=(0, 1))


def test_rules_that_are_off_are_in_no_identity() -> None:
    assert describe_rules(None, None) == (("temperature", "0"),)
    rules = dict(describe_rules(RULE, OpenAiWhisperConfig().guards))
    assert rules["fallback.temperatures"] == "[0.2, 0.4, 0.6, 0.8, 1.0]"
    assert rules["guards.words_per_s"] == "8.0"
    assert "temperature" not in rules
