"""Level, noise and clipping of a speaker's clip."""

import numpy as np
import pytest
import soundfile

from bystander.tasks.audio.levels import SILENCE_DBFS
from bystander.tasks.audio.speech_activity import measure_levels
from bystander.tasks.audio.speech_quality import MAX_SNR_DB, find_speech_frames, measure_quality
from shared_data import find_shared
from voice_corpora import RATE, make_clip


@pytest.mark.parametrize("asked", [15.0, 20.0, 30.0, 40.0])
def test_the_ratio_is_that_of_the_noise_put_in(asked):
    clean = make_clip(3, noise=0.0)
    levels = measure_levels(clean, RATE)
    power = np.mean(10 ** (levels[find_speech_frames(levels)] / 10))
    noise = np.random.default_rng(1).standard_normal(len(clean)) * np.sqrt(power / 10 ** (asked / 10))
    found = measure_quality(clean + noise.astype(np.float32), RATE)
    assert found.snr_db == pytest.approx(asked, abs=1.5)


def test_levels_are_of_the_speech_alone():
    clip = make_clip(3, noise=1e-4)
    found = measure_quality(clip, RATE)
    padded = np.concatenate([clip, 1e-4 * np.random.default_rng(0).standard_normal(5 * RATE).astype(np.float32)])
    assert measure_quality(padded, RATE).level_dbfs == pytest.approx(found.level_dbfs, abs=0.1)
    assert measure_quality(clip / 2, RATE).level_dbfs == pytest.approx(found.level_dbfs - 6.02, abs=0.1)


def test_a_gate_leaves_no_noise_to_measure():
    assert measure_quality(make_clip(3, noise=0.0), RATE).snr_db == MAX_SNR_DB


@pytest.mark.parametrize("samples", [np.zeros(RATE, np.float32), np.zeros(0, np.float32)])
def test_silence_has_no_speech(samples):
    found = measure_quality(samples, RATE)
    assert (found.level_dbfs, found.snr_db, found.speech_s) == (SILENCE_DBFS, 0.0, 0.0)


def test_clipping_is_a_share_of_all_samples():
    clip = np.clip(make_clip(3) * 8, -1, 1)
    assert measure_quality(clip, RATE).clipped_share == pytest.approx(np.mean(np.abs(clip) >= 0.999), abs=1e-9)


def test_reverberation_and_noise_make_a_real_recording_worse():
    folder = find_shared("speech_transcribed", "lhotse")
    dry, rate = soundfile.read(folder / "libri-1088-134315-0000.wav", dtype="float32")
    wet, _ = soundfile.read(folder / "libri-1088-134315-0000_rvb.wav", dtype="float32")
    best, worse = measure_quality(dry, rate), measure_quality(wet, rate)
    assert 25 < best.snr_db < 35
    assert worse.snr_db < best.snr_db - 4
