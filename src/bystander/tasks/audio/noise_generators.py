"""Rain, keyboard and fan noise, generated: what a bench needs of environmental noise where no recordings are at hand.

Each generator returns float32 samples, shape (n,), of any level; `generate_noise` sets it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import Samples
from bystander.tasks.audio.levels import convert_from_db
from bystander.tasks.audio.trimming import fade_edges

_Signal = npt.NDArray[np.float64]
_PEAK_CEILING_DBFS = -1.0
_FADE_S = 0.01


def generate_noise(kind: str, seconds: float, rate: int, level_dbfs: float, rng: np.random.Generator) -> Samples:
    """Return noise of a kind of `GENERATORS`, float32, shape (round(seconds * rate),).

    Its RMS is `level_dbfs`, or less where a peak would pass -1 dBFS; its edges are faded over 10 ms.

    Raises:
        KeyError: there is no such kind.
    """
    count = round(seconds * rate)
    generator = GENERATORS[kind]
    if not count:
        return np.zeros(0, np.float32)
    signal = generator(count, rate, rng)
    signal = signal - signal.mean()
    rms = float(np.sqrt(np.mean(np.square(signal))))
    if rms == 0:
        return np.zeros(count, np.float32)
    gain = min(convert_from_db(level_dbfs) / rms, convert_from_db(_PEAK_CEILING_DBFS) / float(np.abs(signal).max()))
    return fade_edges((signal * gain).astype(np.float32), round(_FADE_S * rate))


def generate_rain(count: int, rate: int, rng: np.random.Generator) -> _Signal:
    """Return rain: the hiss of countless far drops under single near ones, in gusts.

    The hiss is noise between some hundred Hz and several kHz. Near drops come as a Poisson process, 15 to 120 a second;
    each rings (a bubble under water or what the drop hits) at 0.8 to 6 kHz and dies away within 3 to 20 ms; their
    amplitudes are log-normal, so that a few stand out.
    """
    tilt, low, high = rng.uniform(-0.9, -0.3), rng.uniform(200, 600), rng.uniform(5000, 10000)
    hiss = _shape_noise(count, rate, rng, lambda f: _band(f, low, high) * (np.maximum(f, 50) / 1000) ** tilt)
    density = rng.uniform(15, 120)
    drops = np.zeros(count)
    sorts = 12
    for _ in range(sorts):
        impulses = np.zeros(count)
        number = rng.poisson(density / sorts * count / rate)
        places = rng.integers(0, max(1, count), number)
        np.add.at(impulses, places, rng.lognormal(0.0, 0.6, number) * rng.choice([-1.0, 1.0], number))
        drops += _ring(impulses, rate, rng.uniform(800, min(6000, 0.4 * rate)), rng.uniform(0.003, 0.02))
    gusts = 1 + 0.35 * _drift(count, rate, rng, 0.25)
    mixed = _normalise(hiss) + rng.uniform(0.4, 1.2) * _normalise(drops)
    return np.asarray(mixed * np.maximum(0.2, gusts))


def generate_keyboard(count: int, rate: int, rng: np.random.Generator) -> _Signal:
    """Return somebody typing in a quiet room.

    Times are those of people: intervals between keys are log-normal with a median of 0.11 to 0.24 s (fast and average
    typists: V. Dhakal et al., Observations on Typing from 136 Million Keystrokes, CHI 2018: 120 and 239 ms), keys are
    held for about 0.1 s, words of 2 to 9 letters end in the space bar, and thought comes between some of them. A press
    is a click at 1.5 to 5 kHz on the thump of the case at 120 to 300 Hz, its release a fainter click; each key has its
    own sound.
    """
    median_s = rng.uniform(0.11, 0.24)
    keys = [(rng.uniform(1500, min(5000, 0.4 * rate)), rng.uniform(0.002, 0.006)) for _ in range(24)]
    space = (rng.uniform(600, 1200), rng.uniform(0.006, 0.012))
    case_hz, case_s = rng.uniform(120, 300), rng.uniform(0.012, 0.03)
    clicks = np.zeros((len(keys) + 1, count))
    thumps = np.zeros(count)
    at_s = rng.uniform(0.05, 0.5)
    letters = int(rng.integers(2, 10))
    while at_s < count / rate:
        key = len(keys) if letters == 0 else int(rng.integers(len(keys)))
        force = rng.lognormal(0.0, 0.25) * (1.4 if letters == 0 else 1.0)
        for time_s, share in ((at_s, 1.0), (at_s + rng.lognormal(np.log(0.1), 0.25), rng.uniform(0.25, 0.5))):
            place = int(time_s * rate)
            if place < count:
                clicks[key, place] += force * share
                thumps[place] += 0.6 * force * share
        at_s += rng.lognormal(np.log(median_s), 0.35)
        if letters == 0:
            letters = int(rng.integers(2, 10))
            at_s += rng.lognormal(np.log(0.9), 0.6) if rng.random() < 0.15 else 0.0
        else:
            letters -= 1
    # A click is no pure tone: a very short burst of noise rings in the key.
    burst = rng.standard_normal(max(8, round(0.002 * rate))) * np.linspace(1, 0, max(8, round(0.002 * rate)))
    typed = _ring(thumps, rate, case_hz, case_s)
    for row, (hertz, decay_s) in zip(clicks, [*keys, space], strict=True):
        if row.any():
            typed += _ring(_convolve(row, burst), rate, hertz, decay_s)
    room = _shape_noise(count, rate, rng, lambda f: (np.maximum(f, 40) / 100) ** -1.0)
    peak = float(np.abs(typed).max()) or 1.0
    return np.asarray(typed / peak + convert_from_db(rng.uniform(-55, -42)) * _normalise(room))


def generate_fan(count: int, rate: int, rng: np.random.Generator) -> _Signal:
    """Return a fan: the tones of its blades over rushing air, both swelling slowly.

    The tones are multiples of blades times turns a second (4 to 9 blades at 900 to 2,400 turns a minute), each 4 to
    8 dB below the one before, with a speed that drifts by half a per cent; the air is noise that falls by 3 to 6 dB
    an octave; the motor hums at twice the mains' 50 or 60 Hz.
    """
    base = rng.integers(4, 10) * rng.uniform(900, 2400) / 60
    speed = 1 + 0.005 * _drift(count, rate, rng, 0.2)
    phase = 2 * np.pi * np.cumsum(base * speed) / rate
    drop_db = rng.uniform(4, 8)
    tones = np.zeros(count)
    for order in range(1, 9):
        if order * base * 1.02 < 0.45 * rate:
            level = convert_from_db(-drop_db * (order - 1) + rng.uniform(-3, 3))
            tones += level * np.sin(order * phase + rng.uniform(0, 2 * np.pi))
    hum_hz = 2 * float(rng.choice([50, 60]))
    hum = np.sin(2 * np.pi * hum_hz * np.arange(count) / rate + rng.uniform(0, 2 * np.pi))
    slope = rng.uniform(0.5, 1.0)
    air = _shape_noise(count, rate, rng, lambda f: (np.maximum(f, 60) / 200) ** -slope)
    mixed = _normalise(air) + rng.uniform(0.25, 0.6) * _normalise(tones) + rng.uniform(0.02, 0.1) * hum
    return np.asarray(mixed * (1 + 0.12 * _drift(count, rate, rng, 0.5)))


GENERATORS: dict[str, Callable[[int, int, np.random.Generator], _Signal]] = {
    "rain": generate_rain,
    "keyboard": generate_keyboard,
    "fan": generate_fan,
}
"""What can be generated, by name: from a number of samples, a rate in Hz and a generator."""


def _shape_noise(count: int, rate: int, rng: np.random.Generator, gain: Callable[[Any], Any]) -> _Signal:
    """Return white noise whose spectrum is weighted by `gain` of the frequency in Hz."""
    spectrum = np.fft.rfft(rng.standard_normal(count))
    return np.asarray(np.fft.irfft(spectrum * gain(np.fft.rfftfreq(count, 1 / rate)), count))


def _band(hertz: Any, low: float, high: float) -> Any:
    """Return a gain that falls by 12 dB an octave outside a band."""
    return 1 / np.sqrt((1 + (low / np.maximum(hertz, 1)) ** 4) * (1 + (hertz / high) ** 4))


def _ring(impulses: _Signal, rate: int, hertz: float, decay_s: float) -> _Signal:
    """Return impulses through a resonator that rings at `hertz` and falls to 1/e within `decay_s`."""
    from scipy.signal import lfilter

    radius, angle = float(np.exp(-1 / (decay_s * rate))), 2 * np.pi * hertz / rate
    return np.asarray(lfilter([np.sin(angle)], [1, -2 * radius * np.cos(angle), radius**2], impulses))


def _convolve(signal: _Signal, kernel: _Signal) -> _Signal:
    from scipy.signal import lfilter

    return np.asarray(lfilter(kernel, [1.0], signal))


def _drift(count: int, rate: int, rng: np.random.Generator, hertz: float) -> _Signal:
    """Return a slow random walk about 0, with a standard deviation near 1 and changes slower than `hertz`."""
    knots = max(4, int(np.ceil(count / rate * 2 * hertz)) + 3)
    return np.interp(np.linspace(1, knots - 2, count), np.arange(knots), rng.standard_normal(knots))


def _normalise(signal: _Signal) -> _Signal:
    rms = float(np.sqrt(np.mean(np.square(signal))))
    return signal / rms if rms > 0 else signal
