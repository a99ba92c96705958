"""The faint sound of a room or a line, so that what nobody says is not digital silence."""

from __future__ import annotations

import numpy as np

from bystander.schemas.engines import Samples
from bystander.tasks.audio.levels import convert_from_db

_CORNER_HZ = 400.0
_WHITE_SHARE = 0.1


def make_room_tone(length: int, rate: int, level_dbfs: float, rng: np.random.Generator) -> Samples:
    """Return noise like that of a quiet room, shape (length,): falling by 6 dB an octave above 400 Hz, with some hiss.

    Ventilation and traffic are low, a microphone's own noise is white: a tenth of the power. The level is the RMS over
    the whole in dB relative to full scale.
    """
    from scipy.signal import lfilter

    if not length:
        return np.zeros(0, np.float32)
    pole = float(np.exp(-2 * np.pi * _CORNER_HZ / rate))
    low = lfilter([1 - pole], [1, -pole], rng.standard_normal(length))
    low /= max(float(np.sqrt(np.mean(low**2))), 1e-12)
    mixed = np.sqrt(1 - _WHITE_SHARE) * low + np.sqrt(_WHITE_SHARE) * rng.standard_normal(length)
    mixed *= convert_from_db(level_dbfs) / max(float(np.sqrt(np.mean(mixed**2))), 1e-12)
    tone: Samples = mixed.astype(np.float32)
    return tone
