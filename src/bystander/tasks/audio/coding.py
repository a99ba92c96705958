"""Between samples and 16-bit FLAC or WAV bytes, by libsndfile."""

from __future__ import annotations

import io
import struct
from typing import cast

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import Samples
from bystander.schemas.errors import InputError

FULL_SCALE = 32768
"""Steps from 0 to 1.0 in 16 bits."""
_WAV_HEADER = "<4sI8sIHHIIHH4sI"


def quantise(samples: Samples) -> npt.NDArray[np.int16]:
    """Return the 16-bit values of `samples`; what lies outside [-1, 1) is clipped."""
    scaled = samples * np.float32(FULL_SCALE)
    np.rint(scaled, out=scaled)
    np.maximum(scaled, np.float32(-FULL_SCALE), out=scaled)
    np.minimum(scaled, np.float32(FULL_SCALE - 1), out=scaled)
    return scaled.astype(np.int16)


def dequantise(values: npt.NDArray[np.int16]) -> Samples:
    """Return 16-bit values as float32 in [-1, 1); exact, so `quantise` gives them back."""
    return values.astype(np.float32) * np.float32(1 / FULL_SCALE)


def encode_flac(samples: Samples | npt.NDArray[np.int16], rate: int) -> bytes:
    """Encode mono samples (float32, or 16-bit values as they are) as 16-bit FLAC.

    Args:
        samples: shape (n,); float32 is quantised first.
        rate: sampling rate in Hz.
    """
    import soundfile

    values = samples if samples.dtype == np.int16 else quantise(cast(Samples, samples))
    buffer = io.BytesIO()
    soundfile.write(buffer, values, rate, format="FLAC", subtype="PCM_16")
    return buffer.getvalue()


def encode_wav(samples: Samples | npt.NDArray[np.int16], rate: int) -> bytes:
    """Encode mono samples as 16-bit WAV: twice the size of FLAC, and nearly free to write and read."""
    values = samples if samples.dtype == np.int16 else quantise(cast(Samples, samples))
    data = values.astype("<i2", copy=False).tobytes()
    header = struct.pack(
        _WAV_HEADER, b"RIFF", 36 + len(data), b"WAVEfmt ", 16, 1, 1, rate, 2 * rate, 2, 16, b"data", len(data)
    )
    return b"".join([header, data])


def decode_audio(data: bytes | memoryview) -> tuple[Samples, int]:
    """Decode any format that libsndfile reads; of several channels, the first.

    Returns:
        Samples of shape (n,), float32, and the sampling rate in Hz.

    Raises:
        InputError: the bytes are no audio that can be read.
    """
    if _is_plain_wav(data):
        return dequantise(np.frombuffer(data, "<i2", offset=44)), int.from_bytes(data[24:28], "little")
    import soundfile

    try:
        samples, rate = soundfile.read(io.BytesIO(data), dtype="float32")
    except soundfile.LibsndfileError as exc:
        raise InputError(f"audio of {len(data)} bytes cannot be decoded ({exc})") from exc
    return np.ascontiguousarray(samples if samples.ndim == 1 else samples[:, 0]), int(rate)


def _is_plain_wav(data: bytes | memoryview) -> bool:
    """Whether `data` is laid out as `encode_wav` does it: one 44-byte header, then 16-bit mono samples to the end."""
    return (
        len(data) >= 44
        and data[:4] == b"RIFF"
        and data[8:24] == b"WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"
        and data[32:40] == b"\x02\x00\x10\x00data"
        and int.from_bytes(data[40:44], "little") == len(data) - 44
    )
