"""How far the channels of a recording keep apart, where that is known."""

from __future__ import annotations

import numpy as np
import pytest

from bystander.tasks.audio.channel_separation import correlate_channels, find_leaked, measure_separation
from bystander.tasks.audio.speech_activity import measure_levels
from conversations import make_channels

RATE = 8000
PIECES = [(0, 0.5, 3.0, "a"), (1, 2.8, 4.5, "b"), (0, 5.0, 7.5, "c"), (1, 6.0, 6.5, "d"), (1, 8.0, 9.5, "e")]


def make(leak_db: float, gains: tuple[float, float] = (1, 1), delay: int = 0, floor: float = 1e-4) -> np.ndarray:
    values = make_channels(PIECES, 10.0, RATE, floor).astype(np.float64)
    leaked = values + 10 ** (leak_db / 20) * np.roll(values[:, ::-1], delay, axis=0)
    return np.asarray(np.rint(leaked * gains).clip(-32768, 32767), np.int16)


def separate(values: np.ndarray) -> float:
    return measure_separation(*(measure_levels(values[:, channel], RATE) for channel in (0, 1))).separation_db


@pytest.mark.parametrize("leak_db", [-3, -6, -12, -20, -30])
@pytest.mark.parametrize("gains", [(1, 1), (1, 0.2)])
def test_measures_the_leakage_that_was_put_in(leak_db: float, gains: tuple[float, float]) -> None:
    assert separate(make(leak_db, gains, delay=40)) == pytest.approx(-leak_db, abs=1.2)


def test_a_mix_on_both_channels_is_not_apart_whatever_the_gains() -> None:
    mix = make(0)
    assert separate(mix) < 0.1
    assert separate(np.rint(mix * [1, 0.1]).astype(np.int16)) < 1


def test_channels_without_leakage_are_apart_by_their_noise() -> None:
    assert separate(make(-200)) > 40


def test_silence_and_nothing_have_no_separation() -> None:
    assert separate(np.zeros((RATE, 2), np.int16)) == 0
    assert separate(np.zeros((0, 2), np.int16)) == 0


def test_tells_leakage_from_a_quiet_speaker() -> None:
    values = make(-20, delay=16)
    levels = [measure_levels(values[:, channel], RATE) for channel in (0, 1)]
    separation = measure_separation(*levels)
    leaked = find_leaked(levels[1], levels[0], separation.differences_db[1])
    frames = {name: slice(round(start * 100) + 5, round(end * 100) - 5) for _, start, end, name in PIECES}
    assert leaked[frames["a"]][:200].all()
    assert not leaked[frames["d"]].any()  # spoken while the other speaks
    assert not leaked[frames["e"]].any()


def test_correlates_sample_by_sample() -> None:
    rng = np.random.default_rng(0)
    one, two = rng.standard_normal((2, (1 << 20) + 9)).astype(np.float32)  # more than one block
    both = np.stack([one, 0.6 * one + 0.8 * two + 1], axis=1)
    assert correlate_channels(both) == pytest.approx(np.corrcoef(both.T)[0, 1], abs=1e-6)
    assert correlate_channels(np.stack([one, -one], axis=1)[:100]) == pytest.approx(-1)
    assert correlate_channels(np.zeros((10, 2), np.int16)) == 0
