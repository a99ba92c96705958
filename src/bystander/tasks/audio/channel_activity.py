"""Who speaks when in a two-channel recording, by the energy of its channels, and how well they keep apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bystander.schemas.recordings import Channels

Levels = npt.NDArray[np.float64]
"""Level of each frame and channel in dB relative to full scale: shape (frames, channels)."""
Mask = npt.NDArray[np.bool_]

FRAME_S = 0.01
FLOOR_DBFS = -90.0
"""Lowest level reported, below the steps of 16 bits: digital silence has it."""
SILENT_DBFS = -65.0
"""A channel whose loudest speech lies below this holds none."""

_SMOOTHED_FRAMES = 5
_FLOOR_SHARE, _PEAK_SHARE = 10, 99.5  # percentiles
_LEAST_ABOVE_FLOOR_DB, _SHARE_ABOVE_FLOOR = 6.0, 0.3
_MOST_BELOW_PEAK_DB, _LEAST_BELOW_PEAK_DB = 40.0, 18.0
_MIN_SPEECH_S, _MAX_GAP_S = 0.06, 0.2
_LEAK_MARGIN_DB = 6.0
_SEPARATION_FRAMES = 10
_SEPARATION_SHARES = (2, 98)
_ACTIVE_BELOW_PEAK_DB = 25.0


@dataclass(frozen=True, slots=True)
class ChannelActivity:
    """Activity of both channels, in frames of `FRAME_S`.

    `speech` says in which frames each channel's own speaker speaks: shape (frames, 2). `separation_db` is how far the
    other's speech lies below a speaker's own, at the worse of both channels; `peaks_dbfs` the level of each channel's
    loudest speech.
    """

    speech: Mask
    separation_db: float
    peaks_dbfs: tuple[float, float]


def measure_activity(samples: Channels, rate: int) -> ChannelActivity:
    """Measure who speaks when.

    A frame is speech where its level, smoothed over 50 ms, is well above the channel's floor and not too far below its
    loudest speech, and where it is louder than what the other speaker leaks into the channel. Stretches shorter than
    60 ms are dropped, gaps up to 200 ms filled.

    Args:
        samples: shape (n, 2), float32, range [-1, 1].
        rate: sampling rate in Hz.
    """
    levels = measure_levels(samples, rate)
    peaks = np.percentile(levels, _PEAK_SHARE, axis=0)
    separation, leaks = measure_separation(levels)
    speech = np.zeros(levels.shape, np.bool_)
    for channel in (0, 1):
        own, other = levels[:, channel], levels[:, 1 - channel]
        loud = own > _choose_threshold(own, float(peaks[channel]))
        loud &= own > other - leaks[channel] + _LEAK_MARGIN_DB
        speech[:, channel] = close_gaps(loud, round(_MAX_GAP_S / FRAME_S), round(_MIN_SPEECH_S / FRAME_S))
    return ChannelActivity(speech, separation, (float(peaks[0]), float(peaks[1])))


def measure_levels(samples: Channels, rate: int) -> Levels:
    """Return the level of each frame of `FRAME_S`, smoothed over five frames; the last, shorter frame is left out."""
    edges = np.round(np.arange(int(len(samples) / rate / FRAME_S) + 1) * FRAME_S * rate).astype(np.int64)
    powers = np.empty((max(0, len(edges) - 1), samples.shape[1]))
    for channel in range(samples.shape[1]):
        if len(powers):
            squares = np.square(samples[: edges[-1], channel], dtype=np.float64)
            powers[:, channel] = np.add.reduceat(squares, edges[:-1]) / np.diff(edges)
    return _to_db(_average(powers, _SMOOTHED_FRAMES))


def measure_separation(levels: Levels) -> tuple[float, tuple[float, float]]:
    """Return how well two channels keep apart, and how far each channel's leakage lies below its source.

    While one of two speakers speaks alone, the channels differ by their separation, in one direction; then in the
    other. So half the spread of the difference over active stretches of 100 ms is the separation, whatever the gains of
    the channels: 0 dB where both hold the same, about 20 to 40 dB on telephone lines.

    Returns:
        The separation in dB, and for channel 0 and 1 the difference (other channel less this one) while the other
        speaks alone.
    """
    count = len(levels) // _SEPARATION_FRAMES
    if not count:
        return 0.0, (0.0, 0.0)
    powers = 10 ** (levels[: count * _SEPARATION_FRAMES] / 10)
    slow = _to_db(powers.reshape(count, _SEPARATION_FRAMES, -1).mean(axis=1))
    active = (slow > slow.max(axis=0) - _ACTIVE_BELOW_PEAK_DB).any(axis=1)
    difference = slow[active, 0] - slow[active, 1]
    low, high = np.percentile(difference, _SEPARATION_SHARES)
    return float(high - low) / 2, (float(high), float(-low))


def close_gaps(mask: Mask, max_gap: int, min_length: int) -> Mask:
    """Return a mask without gaps of up to `max_gap` frames, and then without stretches below `min_length`."""
    starts, ends = find_runs(mask)
    if len(starts):
        apart = starts[1:] - ends[:-1] > max_gap
        starts = starts[np.concatenate([[True], apart])]
        ends = ends[np.concatenate([apart, [True]])]
    closed = np.zeros_like(mask)
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if end - start >= min_length:
            closed[start:end] = True
    return closed


def find_runs(mask: Mask) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the starts and the ends (exclusive) of a mask's stretches."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return edges[::2], edges[1::2]


def _choose_threshold(levels: npt.NDArray[np.float64], peak: float) -> float:
    floor = float(np.percentile(levels, _FLOOR_SHARE))
    above = floor + max(_LEAST_ABOVE_FLOOR_DB, _SHARE_ABOVE_FLOOR * (peak - floor))
    return max(SILENT_DBFS - 5, min(max(above, peak - _MOST_BELOW_PEAK_DB), peak - _LEAST_BELOW_PEAK_DB))


def _average(powers: npt.NDArray[np.float64], width: int) -> npt.NDArray[np.float64]:
    from scipy.ndimage import uniform_filter1d

    if not len(powers):
        return powers
    smoothed: npt.NDArray[np.float64] = uniform_filter1d(powers, width, axis=0, mode="nearest")
    return smoothed


def _to_db(powers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return 10 * np.log10(np.maximum(powers, 10 ** (FLOOR_DBFS / 10)))
