"""The other voice leaking in: how loud it is, and what is none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bystander.tasks.audio.leakage import predict_leak
from bystander.tasks.audio.speech_activity import estimate_floor, mark_spans, measure_levels

RATE = 8000
OTHER = np.array([[1.0, 6.0], [8.0, 11.0]])


def make_voice(spans, seconds, seed):
    """Return noise in spans whose loudness wanders over 20 dB, as that of speech does."""
    rng = np.random.default_rng(seed)
    count = round(seconds * RATE)
    decibels = np.interp(np.arange(count), np.arange(0, count + 800, 800), rng.uniform(-40, -20, count // 800 + 1))
    inside = np.repeat(mark_spans(np.array(spans, float).reshape(-1, 2), round(seconds * 100)), RATE // 100)
    return rng.standard_normal(count) * 10 ** (decibels / 20) * inside


def predict(own_spans, leak_db, told=(), lag=0):
    other = make_voice(OTHER, 12, 1)
    noise = 0.0003 * np.random.default_rng(3).standard_normal((2, len(other)))
    leak = 0 if leak_db is None else np.roll(other, lag) * 10 ** (-leak_db / 20)
    own = make_voice(own_spans, 12, 2) + leak + noise[0]
    levels, others = (measure_levels(track.astype(np.float32), RATE) for track in (own, other + noise[1]))
    may_speak = mark_spans(np.array(told, float).reshape(-1, 2), len(levels))
    return predict_leak(levels, estimate_floor(levels), others, mark_spans(OTHER, len(levels)), may_speak), others


@settings(max_examples=15)
@given(leak_db=st.floats(8, 28), lag=st.integers(0, 160))
def test_measures_the_leak_beside_own_speech(leak_db, lag):
    predicted, other = predict([[3.0, 4.0]], leak_db, [[2.8, 4.2]], lag)
    loud = other > -30
    # The louder of neighbouring frames is taken, so it is never far below what leaks.
    assert np.median(predicted[loud] - other[loud]) == pytest.approx(-leak_db, abs=3)


def test_own_speech_is_no_leak_even_where_nobody_transcribed_it():
    for told in ([], [[3.0, 5.0]]):
        assert np.all(predict([[3.0, 5.0]], None, told)[0] == -120)


def test_what_is_lost_in_noise_is_no_leak():
    assert np.all(predict([], 50)[0] == -120)
    assert np.all(predict([], 10, [[0, 12]])[0] == -120)
    empty = np.zeros(0, np.float32)
    assert len(predict_leak(empty, empty, empty, empty > 0, empty > 0)) == 0
