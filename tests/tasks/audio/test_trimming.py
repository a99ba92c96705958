"""Where speech begins and ends."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from librosa.effects import split

from bystander.tasks.audio.trimming import fade_edges, find_speech, trim_speech

RATE = 24000


def make_tone(seconds, amplitude=0.3):
    return (amplitude * np.sin(2 * np.pi * 220 * np.arange(round(RATE * seconds)) / RATE)).astype(np.float32)


def make_silence(seconds):
    return np.zeros(round(RATE * seconds), np.float32)


@settings(max_examples=30, deadline=None)
@given(st.floats(0, 1), st.floats(0.1, 2), st.floats(0, 1))
def test_cuts_to_the_speech_and_its_margin(before, length, after):
    clip = np.concatenate([make_silence(before), make_tone(length), make_silence(after)])
    trimmed = trim_speech(clip, RATE, top_db=40, margin_s=0.02)
    lost = 2 * 0.025  # frames of 20 ms every 5 ms, at both ends
    assert len(trimmed.samples) / RATE <= min(length + 0.04, len(clip) / RATE) + lost
    assert len(trimmed.samples) / RATE >= length - 0.001
    assert trimmed.longest_silence_s == 0


def test_keeps_noise_floor_out_and_soft_speech_in():
    rng = np.random.default_rng(0)
    clip = np.concatenate([make_silence(0.5), make_tone(0.5), make_tone(0.5, 0.01), make_silence(0.5)])
    clip += 0.0005 * rng.standard_normal(len(clip)).astype(np.float32)
    assert len(trim_speech(clip, RATE, 40, 0.02).samples) / RATE == pytest.approx(1.04, abs=0.04)
    assert len(trim_speech(clip, RATE, 20, 0.02).samples) / RATE == pytest.approx(0.54, abs=0.04)


def test_measures_the_longest_pause_within():
    parts = [make_tone(0.3), make_silence(0.4), make_tone(0.3), make_silence(1.5), make_tone(0.3), make_silence(3)]
    assert trim_speech(np.concatenate(parts), RATE, 40, 0.02).longest_silence_s == pytest.approx(1.5, abs=0.03)


def test_gives_nothing_for_silence():
    assert len(trim_speech(make_silence(1), RATE, 40, 0.02).samples) == 0
    assert len(trim_speech(make_silence(0), RATE, 40, 0.02).samples) == 0


def test_survives_a_clip_shorter_than_a_frame():
    assert 0 < len(trim_speech(make_tone(0.005), RATE, 40, 0.02).samples) <= 120


def test_fades_the_edges_and_nothing_else():
    faded = fade_edges(np.ones(1000, np.float32), 100)
    assert faded[0] == faded[-1] == 0
    assert np.all(np.diff(faded[:100]) > 0)
    assert np.array_equal(faded[:100], faded[:-101:-1])
    assert np.all(faded[100:-100] == 1)
    assert np.array_equal(fade_edges(np.ones(1, np.float32), 100), [1])


@given(
    st.lists(st.tuples(st.integers(1, 4000), st.sampled_from([0.0, 0.0005, 0.004, 0.02, 0.3])), min_size=1, max_size=8),
    st.sampled_from([8000, 16000, 24000, 48000]),
    st.integers(0, 2**32 - 1),
)
def test_finds_the_spans_that_librosa_finds(pieces: list[tuple[int, float]], rate: int, seed: int) -> None:
    noise = np.random.default_rng(seed)
    # One loud piece, because librosa takes what lies below -100 dB for as loud as that.
    loud = [*pieces, (rate // 20, 0.3)]
    samples = np.concatenate([noise.uniform(-1, 1, length) * level for length, level in loud]).astype(np.float32)
    spans = find_speech(samples, rate, 40)
    hop = round(0.005 * rate)
    assert spans.tolist() == split(samples, top_db=40, frame_length=4 * hop, hop_length=hop).tolist()
