"""Where sound begins and ends: known signals, and voices whose first sounds are faint."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import butter, sosfilt

from bystander.tasks.audio.room_tone import make_room_tone
from bystander.tasks.audio.speech_edges import find_sounding, find_speech_start, measure_edge_levels

RATE = 24000


def make_vowel(seconds: float, level: float = 0.2) -> np.ndarray:
    """Return a buzz at 120 Hz whose partials fall by 6 dB an octave, and twice as fast above 1 kHz."""
    t = np.arange(round(seconds * RATE)) / RATE
    partials = [np.sin(2 * np.pi * 120 * k * t) / k / max(1.0, 120 * k / 1000) for k in range(1, 40)]
    vowel = np.sum(partials, axis=0)
    return (level * vowel / np.sqrt(np.mean(vowel**2))).astype(np.float32)


def make_fricative(seconds: float, level: float) -> np.ndarray:
    """Return hiss above 2.5 kHz, as of a weak f."""
    noise = np.random.default_rng(3).standard_normal(round(seconds * RATE))
    hiss = sosfilt(butter(4, 2500, "high", fs=RATE, output="sos"), noise)
    return (level * hiss / np.sqrt(np.mean(hiss**2))).astype(np.float32)


def make_clip(*pieces: np.ndarray | float) -> np.ndarray:
    """Return pieces in a row, numbers being seconds of what is nearly silence."""
    parts = [np.zeros(round(p * RATE)) if isinstance(p, float) else p for p in pieces]
    clip = np.concatenate(parts)
    return (clip + 1e-5 * np.random.default_rng(1).standard_normal(len(clip))).astype(np.float32)


@pytest.mark.parametrize("first_db", [-10, -20, -30])
def test_a_word_begins_with_its_fricative_however_faint(first_db: float) -> None:
    clip = make_clip(0.3, make_fricative(0.1, 0.2 * 10 ** (first_db / 20)), make_vowel(0.3), 0.2)
    sounding = find_sounding(clip, RATE)
    assert len(sounding) == 1
    assert sounding[0, 0] == pytest.approx(0.3, abs=0.008)
    assert sounding[0, 1] == pytest.approx(0.7, abs=0.008)


def test_pauses_part_stretches_and_clicks_are_none() -> None:
    click = np.full(round(0.003 * RATE), 0.1, np.float32)
    clip = make_clip(0.1, click, 0.2, make_vowel(0.2), 0.006, make_vowel(0.2), 0.15, make_vowel(0.1), 0.1)
    starts, ends = find_sounding(clip, RATE).T
    np.testing.assert_allclose(starts, [0.303, 0.859], atol=0.008)
    np.testing.assert_allclose(ends, [0.709, 0.959], atol=0.008)


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 48000])
def test_times_do_not_depend_on_the_rate(rate: int) -> None:
    t = np.arange(rate) / rate
    clip = np.where((t >= 0.4) & (t < 0.8), 0.2 * np.sin(2 * np.pi * 300 * t), 0).astype(np.float32)
    np.testing.assert_allclose(find_sounding(clip, rate), [[0.4, 0.8]], atol=0.008)


@pytest.mark.parametrize("clip", [np.zeros(0, np.float32), np.zeros(2400, np.float32)])
def test_silence_has_no_sound(clip: np.ndarray) -> None:
    assert find_sounding(clip, RATE).shape == (0, 2)
    assert find_speech_start(clip, RATE, 0.1, 0.1, 0.04) is None
    assert len(measure_edge_levels(clip, RATE)) == 1 + len(clip) // 48


def test_a_word_after_a_pause_begins_at_the_nearest_rise() -> None:
    clip = make_clip(0.2, make_vowel(0.3), 0.2, make_vowel(0.3), 0.1, make_vowel(0.2), 0.1)
    assert find_speech_start(clip, RATE, 0.75, 0.12, 0.04) == pytest.approx(0.7, abs=0.008)
    assert find_speech_start(clip, RATE, 0.2, 0.12, 0.04) == pytest.approx(0.2, abs=0.008)
    assert find_speech_start(clip, RATE, 0.4, 0.12, 0.04) is None  # within a word
    assert find_speech_start(clip, RATE, 1.1, 0.12, 0.15) is None  # the pause before it is shorter


def test_room_tone_has_its_level_and_is_low() -> None:
    tone = make_room_tone(160000, 16000, -60.0, np.random.default_rng(0))
    assert tone.dtype == np.float32
    assert 20 * np.log10(np.sqrt(np.mean(tone.astype(np.float64) ** 2))) == pytest.approx(-60, abs=0.01)
    power = np.abs(np.fft.rfft(tone)) ** 2
    assert power[:10000].sum() > 2 * power[10000:].sum()  # below and above 1 kHz
    assert len(make_room_tone(0, 16000, -60.0, np.random.default_rng(0))) == 0
