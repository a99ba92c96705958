from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.tasks.audio.listening import resample_for_listener

RATES = st.sampled_from([8000, 11025, 16000, 22050, 44100, 48000])


def test_equal_rates_change_nothing():
    samples = np.linspace(-1, 1, 100, dtype=np.float32)
    heard = resample_for_listener(samples, 16000, 16000)
    assert heard.lookahead_s == 0
    np.testing.assert_array_equal(heard.samples, samples)


@pytest.mark.parametrize(("rate", "lookahead_s"), [(8000, 10 / 8000), (48000, 10 / 16000)])
def test_a_tone_keeps_its_level_and_time(rate, lookahead_s):
    tone = np.sin(2 * np.pi * 440 * np.arange(rate) / rate).astype(np.float32)
    heard = resample_for_listener(tone, rate, 16000)
    expected = np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
    assert heard.lookahead_s == pytest.approx(lookahead_s)
    assert heard.samples.dtype == np.float32
    np.testing.assert_allclose(heard.samples[200:-200], expected[200:-200], atol=2e-3)


def test_no_samples_stay_none():
    assert len(resample_for_listener(np.zeros(0, np.float32), 8000, 16000).samples) == 0


@given(rate=RATES, target=st.sampled_from([8000, 16000]), seed=st.integers(0, 99), share=st.floats(0, 1))
def test_nothing_beyond_the_lookahead_is_heard(rate, target, seed, share):
    samples = np.random.Generator(np.random.PCG64(seed)).uniform(-1, 1, rate // 5).astype(np.float32)
    cut = round(share * len(samples))
    whole = resample_for_listener(samples, rate, target)
    before = resample_for_listener(samples[:cut], rate, target)
    known = max(0, int((cut / rate - whole.lookahead_s) * target))
    np.testing.assert_array_equal(before.samples[:known], whole.samples[:known])
