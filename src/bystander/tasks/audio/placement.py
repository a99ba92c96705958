"""Two tracks on one time line."""

from __future__ import annotations

import numpy as np

from bystander.schemas.engines import Samples


def place_second(first_length: int, second_length: int, offset: int, max_overlap_share: float) -> int:
    """Return where the second track starts, in samples from the start of the first.

    Args:
        first_length: samples of the first track.
        second_length: samples of the second track.
        offset: samples from the end of the first to the start of the second; negative is overlap.
        max_overlap_share: share of the shorter track, in [0, 1], that may overlap at most; the offset yields to it.
    """
    longest_overlap = int(max_overlap_share * min(first_length, second_length))
    return first_length + max(offset, -longest_overlap)


def add_tracks(first: Samples, second: Samples, start: int, second_gain: float = 1.0) -> Samples:
    """Return the sum of both tracks, the second `start` samples after the first and scaled by `second_gain`."""
    mixture = np.zeros(max(len(first), start + len(second)), np.float32)
    mixture[: len(first)] = first
    mixture[start : start + len(second)] += second * np.float32(second_gain)
    return mixture
