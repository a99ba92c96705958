"""A clip's waveform as a browser draws it."""

from __future__ import annotations

import io

import numpy as np
import soundfile

from bystander.schemas.errors import CorruptPartError

MOST_PEAKS = 1200
_SCALE = 100


def read_peaks(audio: bytes) -> list[list[int]]:
    """Return lowest and highest sample of up to `MOST_PEAKS` equal stretches, whole numbers in [-100, 100].

    The loudest sample is at 100 or -100. Channels are laid over each other.

    Raises:
        CorruptPartError: the clip cannot be decoded.
    """
    try:
        samples, _ = soundfile.read(io.BytesIO(audio), dtype="float32", always_2d=True)
    except soundfile.SoundFileError as exc:
        raise CorruptPartError(f"clip: cannot be decoded ({exc})") from exc
    if not len(samples):
        return [[0, 0]]
    edges = np.linspace(0, len(samples), min(MOST_PEAKS, len(samples)), endpoint=False).astype(np.int64)
    low = np.minimum.reduceat(samples.min(axis=1), edges)
    high = np.maximum.reduceat(samples.max(axis=1), edges)
    scale = _SCALE / max(float(np.abs(samples).max()), 1e-4)
    peaks: list[list[int]] = np.rint(np.stack([low, high], axis=1) * scale).astype(int).tolist()
    return peaks
