"""What the streams of detectors share: whole frames, and how many in a row they ask for."""

from __future__ import annotations

import numpy as np

from bystander.schemas.engines import Samples


def fill_frame(chunk: Samples, size: int) -> Samples:
    """Return a chunk of exactly `size` samples: the last one of a clip is filled up with silence."""
    if len(chunk) == size:
        return chunk
    filled = np.zeros(size, np.float32)
    filled[: len(chunk)] = chunk
    return filled


class RunLength:
    """Whether the last `needed` answers were all yes."""

    def __init__(self, needed: int) -> None:
        self._needed = needed
        self._length = 0

    def add(self, positive: bool) -> bool:
        """Take one more answer and say whether the run is long enough."""
        self._length = self._length + 1 if positive else 0
        return self._length >= self._needed
