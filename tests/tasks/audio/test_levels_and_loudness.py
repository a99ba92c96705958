"""Levels and loudness against values from formulas, and against pyloudnorm."""

import numpy as np
import pyloudnorm
import pytest

from bystander.tasks.audio.levels import (
    SILENCE_DBFS,
    convert_from_db,
    convert_to_db,
    measure_clipped_share,
    measure_peak,
    measure_rms_dbfs,
)
from bystander.tasks.audio.loudness import measure_loudness, measure_lufs


def make_tone(rate, seconds, amplitude, hertz=997.0):
    return (amplitude * np.sin(2 * np.pi * hertz * np.arange(round(rate * seconds)) / rate)).astype(np.float32)


def test_measures_levels_in_db_of_full_scale():
    assert measure_rms_dbfs(make_tone(48000, 1, 1.0)) == pytest.approx(-3.0103, abs=1e-3)
    assert measure_rms_dbfs(np.full(100, 0.1, np.float32)) == pytest.approx(-20, abs=1e-4)
    assert measure_rms_dbfs(np.zeros(10, np.float32)) == measure_rms_dbfs(np.zeros(0, np.float32)) == SILENCE_DBFS
    assert measure_peak(np.array([0.25, -0.75], np.float32)) == 0.75
    assert measure_peak(np.zeros(0, np.float32)) == 0
    assert measure_clipped_share(np.array([1, -1, 0.5, 0.998], np.float32)) == 0.5
    assert convert_from_db(-20) == pytest.approx(0.1)
    assert convert_to_db(convert_from_db(-7.5)) == pytest.approx(-7.5)


def test_measures_the_calibration_tone_of_bs_1770():
    # A 997 Hz sine at 0 dBFS in one channel reads -3.01 LUFS by definition; EBU meters may be 0.1 off.
    assert measure_lufs(make_tone(48000, 3, 1.0), 48000) == pytest.approx(-3.01, abs=0.05)
    assert measure_lufs(make_tone(48000, 3, 0.1), 48000) == pytest.approx(-23.01, abs=0.05)


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 24000, 44100, 48000])
def test_agrees_with_pyloudnorm(rate):
    rng = np.random.default_rng(rate)
    for seconds in (0.4, 0.45, 1.0, 1.87, 3.3):
        count = round(seconds * rate)
        swell = np.abs(np.sin(np.arange(count) * 5 / rate)) ** 3
        samples = (0.1 * swell * rng.standard_normal(count)).astype(np.float32)
        expected = pyloudnorm.Meter(rate).integrated_loudness(samples.astype(np.float64))
        assert measure_lufs(samples, rate) == pytest.approx(expected, abs=1e-6)


def test_gates_silence_out_of_a_clip():
    tone = make_tone(24000, 2, 0.1)
    padded = np.concatenate([tone, np.zeros(240000, np.float32)])
    assert measure_lufs(padded, 24000) == pytest.approx(measure_lufs(tone, 24000), abs=0.6)


def test_falls_back_to_the_weighted_rms_below_one_block():
    short = measure_lufs(make_tone(24000, 0.3, 0.1), 24000)
    assert short == pytest.approx(measure_lufs(make_tone(24000, 2, 0.1), 24000), abs=0.2)


def test_reports_silence_as_silence():
    for seconds in (0, 0.1, 1):
        assert measure_lufs(np.zeros(round(24000 * seconds), np.float32), 24000) == SILENCE_DBFS
    assert measure_lufs(make_tone(24000, 1, 1e-5), 24000) == SILENCE_DBFS  # below the absolute gate


def test_measures_by_the_chosen_method():
    tone = make_tone(24000, 1, 0.1)
    assert measure_loudness(tone, 24000, "rms") == pytest.approx(-23.01, abs=0.01)
    assert measure_loudness(tone, 24000, "ebu_r128") == measure_lufs(tone, 24000)
