"""Between the channels of a recording and its FLAC bytes, whole or a stretch of one channel at a time."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.errors import InputError

ChannelValues = npt.NDArray[np.int16]
"""16-bit values of several channels: shape (n, channels)."""


def encode_channels(values: ChannelValues, rate: int) -> bytes:
    """Encode 16-bit values, shape (n, channels), as FLAC."""
    import soundfile

    buffer = io.BytesIO()
    soundfile.write(buffer, values, rate, format="FLAC", subtype="PCM_16")
    return buffer.getvalue()


def decode_channels(data: bytes | memoryview) -> tuple[ChannelValues, int]:
    """Return all channels as 16-bit values, shape (n, channels), and the sampling rate in Hz.

    16 bits, because recordings last hours: half the memory of float32, and exact for what we encode.

    Raises:
        InputError: the bytes are no audio that can be read.
    """
    import soundfile

    try:
        values, rate = soundfile.read(io.BytesIO(data), dtype="int16", always_2d=True)
    except soundfile.LibsndfileError as exc:
        raise InputError(f"audio of {len(data)} bytes cannot be decoded ({exc})") from exc
    return values, int(rate)


class ChannelReader:
    """Reads stretches of one channel from encoded audio, without decoding the rest."""

    def __init__(self, data: bytes | memoryview) -> None:
        """Open the audio.

        Raises:
            InputError: the bytes are no audio that can be read.
        """
        import soundfile

        try:
            self._file: Any = soundfile.SoundFile(io.BytesIO(data))
        except soundfile.LibsndfileError as exc:
            raise InputError(f"audio of {len(data)} bytes cannot be decoded ({exc})") from exc

    @property
    def rate(self) -> int:
        """Sampling rate in Hz."""
        return int(self._file.samplerate)

    @property
    def length(self) -> int:
        """Samples of a channel."""
        return int(self._file.frames)

    def read(self, channel: int, start: int, end: int) -> npt.NDArray[np.int16]:
        """Return the 16-bit values of one channel from sample `start` up to `end`, shape (end - start,)."""
        self._file.seek(start)
        values: ChannelValues = self._file.read(end - start, dtype="int16", always_2d=True)
        return np.ascontiguousarray(values[:, channel])

    def close(self) -> None:
        """Let go of the audio."""
        self._file.close()
