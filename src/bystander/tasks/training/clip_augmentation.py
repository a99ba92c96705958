"""Training clips as other speakers, rooms and lines would have them; times of a clip move with its sound."""

from __future__ import annotations

import numpy as np

from bystander.schemas.engines import Samples
from bystander.schemas.train_sid_config import Augmentation

_LINE_HZ = (300.0, 3400.0)
_ROOM_S = (0.1, 0.5)
"""Time in which an echo falls by 60 dB."""
_DIRECT_SHARE = (0.3, 0.9)
"""Of the sound's power."""
_NOISE_POLES = (0.0, 0.98)
"""Of the filter that colours white noise: white to falling by 6 dB an octave from 50 Hz on."""


def augment_clip(
    samples: Samples, rate: int, break_s: float | None, settings: Augmentation, rng: np.random.Generator
) -> tuple[Samples, float | None]:
    """Return a varied clip and where its break lies now.

    Everything is drawn from `rng` in one order, whatever the clip is. Samples: shape (n,), float32 in [-1, 1].
    """
    speed, lead_s = rng.uniform(*settings.speed), rng.uniform(*settings.lead_s)
    in_room, on_line = rng.random() < settings.room_share, rng.random() < settings.line_share
    echo_s, direct = rng.uniform(*_ROOM_S), rng.uniform(*_DIRECT_SHARE)
    pole, snr_db = rng.uniform(*_NOISE_POLES), rng.uniform(*settings.noise_snr_db)
    gain_db = rng.uniform(*settings.gain_db)
    varied = _change_speed(samples, speed)
    varied = np.concatenate([np.zeros(round(lead_s * rate), np.float32), varied])
    if in_room:
        varied = _echo(varied, rate, echo_s, direct, rng)
    varied = _add_noise(varied, rate, pole, snr_db, rng)
    if on_line:
        varied = _pass_line(varied, rate)
    varied = np.clip(varied * np.float32(10 ** (gain_db / 20)), -1, 1)
    return varied, None if break_s is None else lead_s + break_s / speed


def _change_speed(samples: Samples, speed: float) -> Samples:
    places = np.arange(0, len(samples) - 1, speed)
    changed: Samples = np.interp(places, np.arange(len(samples)), samples).astype(np.float32)
    return changed


def _echo(samples: Samples, rate: int, echo_s: float, direct: float, rng: np.random.Generator) -> Samples:
    """Return the sound in a room of decaying noise; the direct sound stays where it was."""
    from scipy.signal import oaconvolve

    length = round(echo_s * rate)
    response = rng.standard_normal(length) * 10 ** (-3 * np.arange(length) / length)
    response *= np.sqrt((1 - direct) / np.sum(response**2))
    response[0] = np.sqrt(direct)
    wet: Samples = oaconvolve(samples, response)[: len(samples)].astype(np.float32)
    return wet


def _add_noise(samples: Samples, rate: int, pole: float, snr_db: float, rng: np.random.Generator) -> Samples:
    """Return the sound over steady noise; the level of speech is that of the louder half of its frames of 10 ms."""
    from scipy.signal import lfilter

    frame = rate // 100
    power = np.sort(np.mean(samples[: len(samples) // frame * frame].reshape(-1, frame) ** 2, axis=1))
    speech = float(np.mean(power[len(power) // 2 :])) if len(power) else 0.0
    if speech <= 0:
        return samples
    noise = lfilter([1.0], [1.0, -pole], rng.standard_normal(len(samples), np.float32))
    noise *= np.sqrt(speech / np.mean(noise**2)) * 10 ** (-snr_db / 20)
    return np.asarray(samples + noise, np.float32)


def _pass_line(samples: Samples, rate: int) -> Samples:
    from scipy.signal import butter, sosfilt

    passed: Samples = sosfilt(butter(3, _LINE_HZ, "bandpass", fs=rate, output="sos"), samples).astype(np.float32)
    return passed
