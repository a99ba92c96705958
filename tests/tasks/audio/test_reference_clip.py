"""Stretches of speech, and short ones joined."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.tasks.audio.reference_clip import find_stretch, join_stretches, take_middle
from bystander.tasks.audio.speech_quality import measure_quality
from voice_corpora import RATE, make_clip


def make_speech(*seconds):
    """Speech and pauses in turn, beginning with a pause, in faint noise."""
    rng = np.random.default_rng(0)
    pieces = []
    for at, length in enumerate(seconds):
        noise = 1e-3 * rng.standard_normal(round(length * RATE))
        pieces.append(noise + (0.2 * rng.standard_normal(len(noise)) if at % 2 else 0))
    return np.concatenate(pieces).astype(np.float32)


def find(samples, max_s=6.0, max_pause_s=0.8, margin_s=0.05):
    start, end = find_stretch(samples, RATE, max_s, max_pause_s, margin_s)
    return pytest.approx((start / RATE, end / RATE), abs=0.03)


def test_the_stretch_with_most_speech_is_taken():
    samples = make_speech(0.5, 1.0, 0.3, 1.0, 2.0, 2.0, 0.3, 2.0, 0.5)
    assert find(samples) == (4.75, 9.15)


def test_it_ends_at_a_pause_before_the_limit():
    samples = make_speech(0.5, 2.0, 0.3, 2.0, 0.3, 2.0, 0.5)
    assert find(samples) == (0.45, 4.85)


def test_speech_without_a_pause_is_cut():
    samples = make_speech(0.5, 20.0, 0.5)
    syllables = np.abs(np.sin(2 * np.pi * 4 * np.arange(len(samples)) / RATE)).astype(np.float32)
    assert find(samples * syllables) == (0.45, 6.45)


def test_silence_has_no_stretch():
    assert find_stretch(np.zeros(RATE, np.float32), RATE, 6, 1, 0.05) == (0, 0)


@given(st.lists(st.floats(0.15, 4.0), min_size=3, max_size=9), st.floats(1.0, 8.0))
def test_it_is_never_longer_than_asked_for(seconds, max_s):
    samples = make_speech(*seconds)
    start, end = find_stretch(samples, RATE, max_s, 0.8, 0.05)
    assert 0 <= start <= end <= len(samples)
    assert (end - start) / RATE <= max_s + 1e-3


def test_joined_pieces_are_as_loud_as_the_first():
    first, second = make_clip(1, 1, 3.0), make_clip(1, 2, 3.0, level=0.2, noise=4e-4)
    joined = join_stretches([first, second], RATE, 0.2, np.random.default_rng(0))
    assert len(joined) == len(first) + len(second) + round(0.2 * RATE)
    levels = [measure_quality(part, RATE).level_dbfs for part in (joined[: len(first)], joined[-len(second) :])]
    assert levels[0] == pytest.approx(levels[1], abs=0.2)
    gap = joined[len(first) : len(first) + round(0.2 * RATE)]
    assert -70 < 20 * np.log10(np.sqrt(np.mean(gap**2))) < -50  # the noise of the first: 1e-3


def test_joined_pieces_do_not_clip():
    loud, quiet = make_clip(1, 1, 3.0, level=1.0), make_clip(1, 2, 3.0, level=1.0) * np.float32(0.3)
    quiet[RATE] = 0.9  # a click that the gain would lift beyond full scale
    joined = join_stretches([loud, quiet], RATE, 0.0, np.random.default_rng(0))
    assert np.abs(joined).max() <= 0.9901


def test_the_middle_of_a_clip():
    samples = np.arange(100, dtype=np.float32)
    assert take_middle(samples, 10, 2.0).tolist() == list(range(40, 60))
    assert len(take_middle(samples, 10, 20.0)) == 100
