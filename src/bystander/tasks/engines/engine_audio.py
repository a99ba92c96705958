"""What the engines do to audio before their models see it."""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import Samples

_FRAME_S = 0.05


def convert_rate(samples: Samples, sampling_rate: int, target_rate: int) -> Samples:
    """Return the audio at `target_rate` Hz, shape (m,), float32 (soxr, high quality)."""
    if sampling_rate == target_rate:
        return np.ascontiguousarray(samples, np.float32)
    import soxr

    resampled: Samples = soxr.resample(np.ascontiguousarray(samples, np.float32), sampling_rate, target_rate)
    return resampled


def measure_peak_level(samples: Samples, sampling_rate: int) -> float:
    """Return the RMS level of the loudest 50 ms, in dB relative to full scale; -inf for digital silence."""
    frame = max(1, min(len(samples), int(_FRAME_S * sampling_rate)))
    usable = samples[: len(samples) // frame * frame].reshape(-1, frame).astype(np.float64)
    power = float(np.max(np.mean(usable**2, axis=1), initial=0.0))
    return 10 * float(np.log10(power)) if power > 0 else -np.inf


def quantise(samples: Samples) -> npt.NDArray[np.int16]:
    """Return the 16-bit values of samples in [-1, 1]; what lies outside is clipped."""
    values: npt.NDArray[np.int16] = np.clip(np.rint(samples * np.float32(32768)), -32768, 32767).astype(np.int16)
    return values


def encode_wav(samples: Samples, sampling_rate: int) -> bytes:
    """Return a 16-bit mono WAV file."""
    import soundfile

    stream = io.BytesIO()
    soundfile.write(stream, quantise(samples), sampling_rate, format="WAV", subtype="PCM_16")
    return stream.getvalue()
