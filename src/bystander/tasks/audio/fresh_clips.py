"""Clips encoded a moment ago, with the 16-bit values that they were made of.

FLAC is lossless: what was encoded is what decoding gives. So the stage that looks at finished audio right after it was
made need not decode it, which costs as much as encoding. A clip is found by its bytes, all of them, and only once; one
that was made by another process, or too long ago, is decoded. So this changes no result.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np
import numpy.typing as npt

from bystander.tasks.audio.coding import decode_audio, encode_flac, quantise

Values = npt.NDArray[np.int16]

_HEAD_BYTES = 42
"""Of a FLAC file: its first block, which ends in the MD5 of its samples."""
_LIMIT_BYTES = 256 << 20
"""What is kept at most, encoded and not: about 600 clips of 6 seconds."""


class FreshClips:
    """Clips on their way from the stage that encodes them to the one that looks at them; for any number of threads."""

    def __init__(self, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._kept: OrderedDict[bytes, tuple[bytes, Values, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def encode(self, values: Values, rate: int) -> bytes:
        """Encode 16-bit values, shape (n,), as FLAC and keep them for `take_values`."""
        data = encode_flac(values, rate)
        key = data[:_HEAD_BYTES]
        with self._lock:
            self._drop(key)
            self._kept[key] = data, values, rate
            self._bytes += len(data) + values.nbytes
            while self._bytes > self._limit:
                self._drop(next(iter(self._kept)))
        return data

    def take_values(self, data: bytes | memoryview) -> tuple[Values, int]:
        """Return the 16-bit values of a clip, shape (n,), and its sampling rate in Hz, and keep them no longer.

        Raises:
            InputError: the bytes are no audio that can be read.
        """
        key = bytes(data[:_HEAD_BYTES])
        with self._lock:
            kept = self._kept.get(key)
            self._drop(key)
        if kept is not None and np.array_equal(np.frombuffer(kept[0], np.uint8), np.frombuffer(data, np.uint8)):
            return kept[1], kept[2]
        samples, rate = decode_audio(data)
        return quantise(samples), rate

    def _drop(self, key: bytes) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._bytes -= len(kept[0]) + kept[1].nbytes


FRESH_CLIPS = FreshClips()
"""This process's."""
