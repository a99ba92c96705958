"""Steady noise under training clips, so that a model knows pauses in rooms and on lines, not only clean ones."""

from __future__ import annotations

import numpy as np

from bystander.schemas.engines import Samples
from bystander.schemas.identity import make_rng

SNR_DB = (8.0, 40.0)
_SLOPES = (0.0, 0.5, 1.0)
_CORNER_HZ = 60.0


def add_room_noise(samples: Samples, sampling_rate: int, clip_id: str) -> Samples:
    """Return a clip with noise of its own under it, shape (n,), float32: white, pink or brown, 8 to 40 dB below speech.

    The level of speech is that of the clip's louder half of 10 ms frames. What is drawn depends on `clip_id` alone.
    """
    rng = make_rng(0, clip_id, "aligner_room_noise")
    frame = max(1, sampling_rate // 100)
    usable = samples[: len(samples) // frame * frame].astype(np.float64).reshape(-1, frame)
    power = np.sort(np.mean(usable**2, axis=1))
    if not len(power) or power[-1] <= 0:
        return samples
    speech = float(np.mean(power[len(power) // 2 :]))
    slope = _SLOPES[int(rng.integers(len(_SLOPES)))]
    spectrum = np.fft.rfft(rng.standard_normal(len(samples)))
    hertz = np.fft.rfftfreq(len(samples), 1 / sampling_rate)
    noise = np.fft.irfft(spectrum / np.maximum(hertz, _CORNER_HZ) ** slope, len(samples))
    noise *= np.sqrt(speech / np.mean(noise**2)) * 10 ** (-float(rng.uniform(*SNR_DB)) / 20)
    noisy: Samples = (samples + noise).astype(np.float32)
    return noisy
