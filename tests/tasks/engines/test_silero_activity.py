"""Silero VAD on real speech with known pauses, and on what is no speech."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from bystander.schemas.activity import ActivityRequest, VoiceActivityDetector
from bystander.schemas.engines import RowFault
from bystander.schemas.sid_engine_configs import SileroVadConfig
from bystander.tasks.audio.resampling import resample
from bystander.tasks.audio.trimming import find_speech
from bystander.tasks.engines.registry import open_vad

CLIPS = [parent / "shared/data/speech_transcribed" for parent in Path(__file__).resolve().parents]
CLIPS = next((folder for folder in CLIPS if folder.is_dir()), None)
NAMES = ("lhotse/2412-153948-0000.flac", "lhotse/LJ002-0020.wav", "pocketsphinx/001.wav")


@pytest.fixture(scope="module")
def vad():
    opened = open_vad(SileroVadConfig())
    yield opened
    opened.close()


def hear(vad, samples, rate=16000):
    (spans,) = vad.find_speech([ActivityRequest(samples.astype(np.float32), rate)])
    return spans


def make_known(rate, gap_s=1.0, noise=0.0005):
    """Return stretches of real speech a second apart, and where they are."""
    parts, truth, at = [], [], 0
    for name in NAMES:
        samples, from_rate = soundfile.read(CLIPS / name, dtype="float32", always_2d=True)
        speech = resample(np.ascontiguousarray(samples[:, 0]), from_rate, rate)
        for start, end in find_speech(speech, rate, 30):
            if end - start > 0.4 * rate and len(truth) < 12:
                parts += [np.zeros(round(gap_s * rate), np.float32), speech[start:end]]
                at += round(gap_s * rate)
                truth.append((at / rate, (at + end - start) / rate))
                at += end - start
    parts.append(np.zeros(rate, np.float32))
    track = np.concatenate(parts)
    return track + noise * np.random.default_rng(0).standard_normal(len(track)).astype(np.float32), np.array(truth)


@pytest.mark.skipif(CLIPS is None, reason="needs ../shared/data")
@pytest.mark.parametrize(("rate", "gain"), [(16000, 1.0), (8000, 1.0), (16000, 0.003)])
def test_finds_real_speech_to_within_a_tenth_of_a_second(vad, rate, gain):
    track, truth = make_known(rate)
    spans = hear(vad, track * gain, rate)
    starts = [spans[spans[:, 1] > start][0, 0] - start for start, _ in truth]
    ends = [spans[spans[:, 0] < end][-1, 1] - end for _, end in truth]
    assert np.median(np.abs(starts)) < 0.06
    assert np.max(np.abs(starts)) < 0.15
    assert np.median(np.abs(ends)) < 0.1
    assert np.all(spans[1:, 0] >= spans[:-1, 1])
    assert np.all(spans[:, 1] > spans[:, 0])
    assert spans[-1, 1] <= len(track) / rate


def test_hears_no_speech_in_silence_and_noise(vad):
    assert hear(vad, np.zeros(16000)).shape == (0, 2)
    assert hear(vad, 0.01 * np.random.default_rng(0).standard_normal(64000)).shape == (0, 2)
    assert hear(vad, np.zeros(10), 44100).shape == (0, 2)


def test_what_cannot_be_heard_is_a_fault_of_its_row(vad):
    good = ActivityRequest(np.zeros(1600, np.float32), 16000)
    empty = ActivityRequest(np.zeros(0, np.float32), 16000)
    broken = ActivityRequest(np.array([0, np.nan] * 800, np.float32), 16000)
    replies = vad.find_speech([good, empty, broken, good])
    reasons = [reply.reason if isinstance(reply, RowFault) else None for reply in replies]
    assert reasons == [None, "empty_audio", "non_finite_audio", None]
    assert vad.find_speech([]) == []


def test_its_identity_holds_what_decides_its_answers(vad):
    assert isinstance(vad, VoiceActivityDetector)
    other = open_vad(SileroVadConfig(threshold=0.6))
    assert vad.identity != other.identity
    assert vad.identity == open_vad(SileroVadConfig()).identity
    assert len(vad.identity.revision) == 64
