"""Generated noise: level, peaks, spectrum, rhythm; and joined pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import welch

from bystander.schemas.identity import make_rng
from bystander.tasks.audio.joining import join_pieces
from bystander.tasks.audio.levels import measure_peak, measure_rms_dbfs
from bystander.tasks.audio.noise_generators import GENERATORS, generate_noise

RATE = 16000
KINDS = sorted(GENERATORS)


def generate(kind, seconds=8.0, rate=RATE, level=-30.0, draw=0):
    return generate_noise(kind, seconds, rate, level, make_rng(1, f"{kind}-{draw}", "test"))


def measure_octaves(samples, rate=RATE):
    """Return the level of each octave from 62 to 8000 Hz, in dB relative to all of it."""
    power = np.abs(np.fft.rfft(samples)) ** 2
    hertz = np.fft.rfftfreq(len(samples), 1 / rate)
    bands = [power[(hertz >= low) & (hertz < 2 * low)].sum() for low in 62.5 * 2.0 ** np.arange(7)]
    return 10 * np.log10(np.array(bands) / power.sum() + 1e-12)


@settings(max_examples=24)
@given(
    kind=st.sampled_from(KINDS),
    seconds=st.floats(0.05, 6),
    rate=st.sampled_from([8000, 16000, 48000]),
    level=st.floats(-60, -12),
    draw=st.integers(0, 1000),
)
def test_has_the_length_and_level_asked_for_and_never_clips(kind, seconds, rate, level, draw):
    samples = generate(kind, seconds, rate, level, draw)
    assert samples.dtype == np.float32
    assert len(samples) == round(seconds * rate)
    assert np.isfinite(samples).all()
    assert measure_peak(samples) <= 10 ** (-1 / 20) + 1e-6
    assert measure_rms_dbfs(samples) <= level + 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_reaches_usual_levels(kind):
    assert measure_rms_dbfs(generate(kind, level=-45)) == pytest.approx(-45, abs=0.3)
    # Keystrokes are so short that loud ones reach full scale first.
    assert measure_rms_dbfs(generate(kind, level=-25)) == pytest.approx(-25, abs=4 if kind == "keyboard" else 0.3)


@pytest.mark.parametrize("kind", KINDS)
def test_depends_on_its_seed_alone(kind):
    assert np.array_equal(generate(kind, 2), generate(kind, 2))
    assert abs(np.corrcoef(generate(kind, 2), generate(kind, 2, draw=1))[0, 1]) < 0.3


def test_kinds_differ_in_spectrum():
    octaves = {kind: np.mean([measure_octaves(generate(kind, draw=d)) for d in range(2)], axis=0) for kind in KINDS}
    rain, fan = octaves["rain"], octaves["fan"]
    assert rain[4:].max() > rain[:2].max() + 6  # rain hisses above 1 kHz
    assert fan[:3].max() > fan[5:].max() + 6  # a fan hums below 500 Hz
    assert octaves["keyboard"][4:].max() > fan[4:].max() + 3  # keys click


def test_a_fan_has_tones_and_rain_has_none():
    def find_peak(samples):
        hertz, power = welch(samples, RATE, nperseg=RATE // 4)
        part = power[(hertz > 60) & (hertz < 400)]
        return 10 * np.log10(part.max() / np.median(part))

    assert min(find_peak(generate("fan", draw=d)) for d in range(5)) > 10
    assert max(find_peak(generate("rain", draw=d)) for d in range(5)) < 9


def test_a_keyboard_has_the_rhythm_of_a_typist():
    for draw in range(3):
        samples = generate("keyboard", 15, 8000, draw=draw)
        energy = np.square(samples).reshape(-1, 8000 // 200).mean(axis=1)  # frames of 5 ms
        crest_db = 10 * np.log10(energy.max() / np.median(energy))
        assert crest_db > 15  # silence between keystrokes
        onsets = np.flatnonzero((energy[1:] > 20 * np.median(energy)) & (energy[1:] > 3 * energy[:-1]))
        per_second = (1 + np.count_nonzero(np.diff(onsets) > 4)) / 15
        assert 2 < per_second < 20  # presses and releases of 3 to 9 keys a second


def test_rain_is_steady_and_has_drops():
    energy = np.square(generate("rain")).reshape(-1, RATE // 100).mean(axis=1)
    assert 10 * np.log10(np.quantile(energy, 0.95) / np.quantile(energy, 0.05)) < 16
    assert 10 * np.log10(energy.max() / np.median(energy)) > 3


def test_no_kind_is_unknown_and_nothing_is_long_nothing():
    with pytest.raises(KeyError):
        generate("thunder")
    assert len(generate("rain", 0)) == len(generate("fan", 0)) == len(generate("keyboard", 0)) == 0


def test_joining_keeps_the_level():
    rng = np.random.default_rng(0)
    pieces = [rng.standard_normal(1600).astype(np.float32) for _ in range(200)]
    joined = join_pieces(pieces, 320)
    assert len(joined) == 200 * 1600 - 199 * 320
    seams = np.concatenate([joined[k * 1280 : k * 1280 + 320] for k in range(1, 200)])
    assert np.std(seams) == pytest.approx(1.0, abs=0.02)
    assert np.array_equal(joined[:1280], pieces[0][:1280])
    assert np.array_equal(joined[320 + 1280 : 2560], pieces[1][320:1280])


def test_joining_shortens_fades_to_short_pieces():
    assert len(join_pieces([np.ones(10, np.float32), np.ones(3, np.float32)], 8)) == 12
    assert len(join_pieces([], 8)) == 0
    assert np.array_equal(join_pieces([np.ones(4), np.ones(4)], 0), np.ones(8))
