"""Change of sampling rate."""

from __future__ import annotations

from bystander.schemas.engines import Samples


def resample(samples: Samples, from_rate: int, to_rate: int) -> Samples:
    """Return `samples` at `to_rate` Hz (soxr, high quality); unchanged where the rates are equal."""
    if from_rate == to_rate or not len(samples):
        return samples
    import soxr

    resampled: Samples = soxr.resample(samples, from_rate, to_rate)
    return resampled
