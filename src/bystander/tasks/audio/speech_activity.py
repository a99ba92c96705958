"""Levels frame by frame, a channel's noise floor, and where its energy shows speech.

Frames are 10 ms long and do not overlap; frame k begins at k * `FRAME_S`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import Samples
from bystander.tasks.audio.levels import SILENCE_DBFS

FRAME_S = 0.01
Levels = npt.NDArray[np.float32]
"""RMS level of each frame in dB relative to full scale: shape (frames,), not below `SILENCE_DBFS`."""
Mask = npt.NDArray[np.bool_]
"""One truth value a frame: shape (frames,)."""

DIGITAL_SILENCE_DBFS = -95.0
"""Frames below this hold no 16-bit value but 0 (a single 1 in a frame of 480 samples is at -117 dB, and no sound)."""
_FLOOR_QUANTILE = 0.1
_FLOOR_WINDOW_S = 10.0
_LOUD_QUANTILE = 0.95
_BLOCK_S = 60

# Of the energy detector, in dB. Speech is 10 dB and more above the noise in all but the worst telephone calls; what
# follows it may fall to 6 dB above, so that word ends are kept.
_START_ABOVE_FLOOR_DB = 12.0
_STAY_ABOVE_FLOOR_DB = 6.0
_BELOW_LOUDEST_DB = 35.0
_MIN_SPEECH_S = 0.05
_MIN_PAUSE_S = 0.1


def measure_levels(samples: Samples | npt.NDArray[np.int16], rate: int) -> Levels:
    """Return the level of each whole frame; samples are float32 in [-1, 1] or 16-bit values, shape (n,)."""
    count = int(len(samples) / (FRAME_S * rate))
    # Each frame begins at its own time: frames of round(FRAME_S * rate) samples drift by seconds at 22,050 Hz.
    edges = np.rint(np.arange(count + 1) * (FRAME_S * rate)).astype(np.int64)
    scale = 32768.0 if samples.dtype == np.int16 else 1.0
    levels = np.empty(count, np.float32)
    step = max(1, round(_BLOCK_S / FRAME_S))
    for first in range(0, count, step):  # in blocks: an hour in float64 would be gigabytes
        last = min(count, first + step)
        squares = samples[edges[first] : edges[last]].astype(np.float64) / scale
        np.square(squares, out=squares)
        powers = np.add.reduceat(squares, edges[first:last] - edges[first]) / np.diff(edges[first : last + 1])
        levels[first:last] = np.maximum(SILENCE_DBFS, 10 * np.log10(np.maximum(powers, 1e-13)))
    return levels


def estimate_floor(levels: Levels) -> Levels:
    """Return the noise floor about each frame in dB: shape (frames,).

    The level that a tenth of the frames lie below, in windows of 10 s, smoothed by taking the lower of neighbouring
    windows (speech may fill one) and read between them linearly. Digital silence (a recorder's mute, an edit) is no
    floor: its frames do not count, and where there is nothing else the floor is `SILENCE_DBFS`.
    """
    if not len(levels):
        return levels
    window = round(_FLOOR_WINDOW_S / FRAME_S)
    starts = range(0, len(levels), window)
    floors = np.full(len(starts), np.nan)
    for at, start in enumerate(starts):
        part = levels[start : start + window]
        part = part[part > DIGITAL_SILENCE_DBFS]
        if len(part) >= min(100, len(levels) // 10 + 1):
            floors[at] = np.quantile(part, _FLOOR_QUANTILE)
    known = np.flatnonzero(~np.isnan(floors))
    if not len(known):
        return np.full(len(levels), SILENCE_DBFS, np.float32)
    floors = np.interp(np.arange(len(floors)), known, floors[known])
    padded = np.pad(floors, 1, mode="edge")
    lowest = np.minimum(np.minimum(padded[:-2], padded[1:-1]), padded[2:])
    centres = (np.arange(len(lowest)) + 0.5) * window
    return np.asarray(np.interp(np.arange(len(levels)), centres, lowest), np.float32)


def find_energetic(levels: Levels, floor: Levels) -> Mask:
    """Return which frames the energy takes for speech.

    A run begins where the level is `_START_ABOVE_FLOOR_DB` above the floor and lasts while it is
    `_STAY_ABOVE_FLOOR_DB` above (hysteresis), before and after; nowhere is it `_BELOW_LOUDEST_DB` below the channel's
    loud frames (their 95th percentile): that is not its speaker. Runs under 50 ms are clicks; pauses under 100 ms are
    the closures of stops.
    """
    if not len(levels):
        return np.zeros(0, bool)
    sounding = levels[levels > np.maximum(floor + _STAY_ABOVE_FLOOR_DB, DIGITAL_SILENCE_DBFS)]
    if not len(sounding):
        return np.zeros(len(levels), bool)
    least = float(np.quantile(sounding, _LOUD_QUANTILE)) - _BELOW_LOUDEST_DB
    stays = levels >= np.maximum(floor + _STAY_ABOVE_FLOOR_DB, least)
    begins = levels >= np.maximum(floor + _START_ABOVE_FLOOR_DB, least)
    mask = np.zeros(len(levels), bool)
    last = -len(levels)
    for start, end in list_runs(stays):
        if not begins[start:end].any() or end - start < round(_MIN_SPEECH_S / FRAME_S):
            continue
        mask[last if start - last < round(_MIN_PAUSE_S / FRAME_S) else start : end] = True
        last = end
    return mask


def list_runs(mask: Mask) -> npt.NDArray[np.int64]:
    """Return where a mask is true: first frames and frames after the last, shape (runs, 2)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return edges.reshape(-1, 2).astype(np.int64)


def mark_spans(spans: npt.NDArray[np.float64], frames: int) -> Mask:
    """Return which of `frames` frames lie in spans of seconds, shape (spans, 2), by their middle."""
    mask = np.zeros(frames, bool)
    for start, end in np.rint(spans / FRAME_S).astype(np.int64).tolist():
        mask[max(0, start) : max(0, end)] = True
    return mask
