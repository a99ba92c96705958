"""Frame levels, noise floors, energy, and near-silence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bystander.tasks.audio.coding import quantise
from bystander.tasks.audio.near_silence import find_near_silence
from bystander.tasks.audio.speech_activity import (
    FRAME_S,
    estimate_floor,
    find_energetic,
    list_runs,
    mark_spans,
    measure_levels,
)
from conversations import make_speech

RATE = 16000


def make_noise(seconds, level_db, rate=RATE, seed=1):
    noise = np.random.default_rng(seed).standard_normal(round(seconds * rate))
    return (10 ** (level_db / 20) * noise).astype(np.float32)


def test_levels_are_those_of_the_frames():
    samples = np.concatenate([np.zeros(RATE), np.full(RATE, 0.1)]).astype(np.float32)
    levels = measure_levels(samples, RATE)
    assert len(levels) == 200
    assert np.all(levels[:100] == -120)
    assert levels[100:] == pytest.approx(-20, abs=1e-3)
    assert measure_levels(quantise(samples), RATE)[150] == pytest.approx(-20, abs=0.01)
    assert len(measure_levels(samples[:10], RATE)) == 0


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000])
def test_frames_do_not_drift(rate):
    samples = np.zeros(150 * rate, np.float32)
    samples[round(149.9 * rate) :] = 0.5
    (first,) = np.flatnonzero(np.diff(measure_levels(samples, rate)) > 40)
    assert (first + 1) * FRAME_S == pytest.approx(149.9, abs=0.011)


def test_the_floor_follows_the_noise_and_not_the_speech():
    samples = np.concatenate([make_noise(40, -60), make_noise(40, -45)])
    for at in range(4, 76, 4):
        samples[at * RATE : (at + 3) * RATE] += make_speech(3, at)
    floor = estimate_floor(measure_levels(samples, RATE))
    assert floor[1000] == pytest.approx(-60, abs=2)
    assert floor[7000] == pytest.approx(-45, abs=2)


def test_digital_silence_is_no_floor():
    samples = np.concatenate([np.zeros(30 * RATE, np.float32), make_noise(10, -50)])
    assert estimate_floor(measure_levels(samples, RATE)) == pytest.approx(-50, abs=2)
    assert np.all(estimate_floor(measure_levels(samples[: 20 * RATE], RATE)) == -120)


@given(
    starts=st.lists(st.floats(0.3, 1.5), min_size=1, max_size=5),
    length=st.floats(0.2, 2),
    noise_db=st.sampled_from([-90, -65, -50]),
)
def test_energy_finds_speech_in_noise(starts, length, noise_db):
    samples = make_noise(0.5 + sum(starts) + length * len(starts) + 0.5, noise_db)
    at, truth = 0.0, []
    for gap in starts:
        at += gap
        truth.append((at, at + length))
        first = round(at * RATE)
        speech = make_speech(length, round(1000 * at))
        samples[first : first + len(speech)] += speech
        at += length
    levels = measure_levels(samples, RATE)
    runs = list_runs(find_energetic(levels, estimate_floor(levels))) * FRAME_S
    assert len(runs) == len(truth)
    assert runs == pytest.approx(np.array(truth), abs=0.03)


def test_energy_bridges_closures_and_drops_clicks():
    samples = make_noise(3, -70)
    for start, end in [(0.5, 0.8), (0.86, 1.2), (2.0, 2.02)]:
        samples[round(start * RATE) : round(end * RATE)] += make_speech(end - start)
    levels = measure_levels(samples, RATE)
    assert list_runs(find_energetic(levels, estimate_floor(levels))).tolist() == [[50, 120]]


def test_nothing_is_energetic_in_noise_or_silence():
    for samples in (make_noise(5, -40), np.zeros(5 * RATE, np.float32), np.zeros(0, np.float32)):
        levels = measure_levels(samples, RATE)
        assert not find_energetic(levels, estimate_floor(levels)).any()


def test_spans_and_masks():
    mask = mark_spans(np.array([[0.02, 0.05], [0.09, 5.0]]), 12)
    assert list_runs(mask).tolist() == [[2, 5], [9, 12]]
    assert list_runs(np.zeros(3, bool)).shape == (0, 2)


def find(levels, speech=(), min_s=0.5, floor=-60.0, above=6.0, most=-35.0):
    levels = np.array(levels, np.float32)
    mask = mark_spans(np.array(speech, float).reshape(-1, 2), len(levels))
    return find_near_silence(levels, np.full(len(levels), floor, np.float32), mask, min_s, above, most).tolist()


def test_near_silence_is_quiet_long_and_away_from_speech():
    assert find([-60.0] * 100) == [[0, 100]]
    assert find([-60.0] * 49) == []
    assert find([-60.0] * 200, speech=[(0.5, 0.6)]) == [[80, 200]]
    assert find([-60.0] * 100 + [-50.0] * 100) == [[0, 100]]
    assert find([-60.0] * 100, floor=-30.0, most=-61.0) == []


def test_a_rustle_does_not_end_it_and_a_bang_does():
    quiet = [-60.0] * 60
    assert find([*quiet, *[-48.0] * 5, *quiet]) == [[0, 125]]
    assert find([*quiet, *[-30.0] * 5, *quiet]) == [[0, 60], [65, 125]]
    assert find([*quiet, *[-48.0] * 6, *quiet]) == [[0, 60], [66, 126]]


def test_digital_silence_is_none():
    assert find([-120.0] * 100) == []
    assert find([-60.0] * 60 + [-120.0] * 20 + [-60.0] * 60) == [[0, 60], [80, 140]]
    assert find([-60.0] * 60 + [-120.0] * 3 + [-60.0] * 60) == [[0, 123]]
