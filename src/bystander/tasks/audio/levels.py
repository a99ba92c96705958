"""Levels of a clip: RMS, peak, share of clipped samples."""

from __future__ import annotations

import math

import numpy as np

from bystander.schemas.engines import Samples

SILENCE_DBFS = -120.0
"""What is reported for digital silence, and the lowest level reported at all (below the step of 16 bits, -96 dB)."""
CLIPPED_FROM = 0.999
"""Magnitude from which a sample counts as clipped; just below the largest 16-bit value, 0.99997."""


def measure_rms_dbfs(samples: Samples) -> float:
    """Return the RMS level in dB relative to full scale 1.0 (a full-scale sine is at -3.01)."""
    if not len(samples):
        return SILENCE_DBFS
    squares = samples.astype(np.float64)
    np.square(squares, out=squares)
    return convert_to_db(float(np.mean(squares)) ** 0.5)


def measure_peak(samples: Samples) -> float:
    """Return the largest magnitude; 0 for an empty clip."""
    return float(max(samples.max(), -samples.min())) if len(samples) else 0.0


def measure_clipped_share(samples: Samples) -> float:
    """Return the share of samples, in [0, 1], whose magnitude is `CLIPPED_FROM` or more."""
    if measure_peak(samples) < CLIPPED_FROM:
        return 0.0
    return float(np.count_nonzero(np.abs(samples) >= CLIPPED_FROM)) / max(1, len(samples))


def convert_to_db(amplitude: float) -> float:
    """Return an amplitude in dB relative to 1.0, not below `SILENCE_DBFS`."""
    return max(SILENCE_DBFS, 20 * math.log10(amplitude)) if amplitude > 0 else SILENCE_DBFS


def convert_from_db(level_db: float) -> float:
    """Return the amplitude of a level in dB relative to 1.0."""
    return float(10 ** (level_db / 20))
