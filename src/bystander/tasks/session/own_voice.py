"""Who is heard on which channel: a voice that leaks over to the other microphone is nobody's there.

Frames are those of `tasks.audio.speech_activity`: 10 ms, not overlapping.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bystander.schemas.identity import make_rng
from bystander.schemas.recordings import Channels
from bystander.tasks.audio.levels import convert_from_db
from bystander.tasks.audio.speech_activity import FRAME_S, Levels, Mask, list_runs, measure_levels

_LOUD_DB = 15.0
"""The other voice is loud within so many dB of its loudest frame; its leak is measured there."""
_FAR_DB = 6.0
"""Where one channel is so much louder than the other, the voice is its own speaker's."""
_LEAK_SPREAD_DB = 4.0
"""A leak's level varies so much about its median."""
_NO_LEAK_DB = 40.0
_MIN_LEAK_FRAMES = 10
_ABOVE_FLOOR_DB = 6.0
_FLOOR_QUANTILE = 0.1
_BELOW_LOUDEST_DB = 24.0
"""A voice ends where it falls so far below its loudest frame. Of rooms that ring for up to 0.7 s, with Kokoro's voices,
20 dB ends words 41 ms early at the median, 24 dB 15 ms, and 28 dB 12 ms late."""
_MIN_RUN_FRAMES = 3
_BLIP_FRAMES, _ALONE_FRAMES = 10, 25
"""No word is shorter than 0.1 s with 0.25 s of quiet on both sides."""
_SMOOTH_FRAMES = 3
_QUIETEST_DBFS = -70.0


def find_voices(samples: Channels, rate: int) -> list[Mask]:
    """Return in which frames each channel has the voice of its own speaker: one mask of shape (frames,) a channel.

    With two channels, the distance at which each voice arrives at the other microphone is measured where that voice is
    loud, and frames that are no louder than the leak are left out.
    """
    levels = [_smooth(measure_levels(np.ascontiguousarray(channel), rate)) for channel in samples.T]
    if len(levels) == 1:
        return [_find_voiced(levels[0], np.ones(len(levels[0]), bool))]
    return [_find_voiced(own, ~_find_leak(own, other)) for own, other in (levels, levels[::-1])]


def mute_others(samples: Channels, rate: int, voices: Sequence[Mask]) -> Channels:
    """Return the channels with noise at the level of their quiet frames in place of all but their own voices.

    Turning the rest down would not do: aligners find words however quiet they are, if nothing else is there, and
    stumble over digital silence. Gains change over 10 ms, so that nothing clicks. Up to 0.1 s about a voice is kept,
    where the other speaker has none. The noise is always the same.
    """
    muted = np.array(samples, np.float32)
    for channel, (own, other) in enumerate(zip(voices, reversed(voices), strict=True)):
        near = np.convolve(own, np.ones(21), "same") > 0
        gains = np.where(own | (near & ~other), 1.0, 0.0)
        if not len(gains):
            continue
        levels = measure_levels(np.ascontiguousarray(samples[:, channel]), rate)
        level = convert_from_db(max(_QUIETEST_DBFS, float(np.quantile(levels, _FLOOR_QUANTILE))))
        noise = level * make_rng(0, "session", "mute_others", channel).standard_normal(len(muted))
        centres = (np.arange(len(gains)) + 0.5) * FRAME_S * rate
        kept = np.interp(np.arange(len(muted)), centres, gains)
        muted[:, channel] = muted[:, channel] * kept + noise * (1 - kept)
    return muted


def snap_to_voice(voice: Mask, start_s: float, end_s: float, before_s: float, after_s: float) -> tuple[float, float]:
    """Return start and end of the voice about a span that was aligned, in seconds; the span itself where none is there.

    Runs of the voice count that reach into the span, widened by `before_s` and `after_s`.
    """
    first, last = (start_s - before_s) / FRAME_S, (end_s + after_s) / FRAME_S
    runs = [(start, end) for start, end in list_runs(voice).tolist() if end > first and start < last]
    if not runs:
        return start_s, end_s
    return runs[0][0] * FRAME_S, runs[-1][1] * FRAME_S


def _find_leak(own: Levels, other: Levels) -> Mask:
    if not len(own):
        return np.zeros(0, bool)
    floor = float(np.quantile(own, _FLOOR_QUANTILE))
    distance = other - own
    far = (other > other.max() - _LOUD_DB) & (distance > _FAR_DB) & (own > floor + _ABOVE_FLOOR_DB)
    leak = float(np.median(distance[far])) if np.count_nonzero(far) > _MIN_LEAK_FRAMES else _NO_LEAK_DB
    return np.asarray(own < other - leak + _LEAK_SPREAD_DB, bool)


def _find_voiced(levels: Levels, allowed: Mask) -> Mask:
    if not allowed.any():
        return np.zeros(len(levels), bool)
    least = max(
        float(np.quantile(levels, _FLOOR_QUANTILE)) + _ABOVE_FLOOR_DB, float(levels[allowed].max()) - _BELOW_LOUDEST_DB
    )
    mask = np.zeros(len(levels), bool)
    for start, end in list_runs(allowed & (levels > least)).tolist():
        mask[start:end] = end - start >= _MIN_RUN_FRAMES
    return _drop_blips(mask)


def _drop_blips(mask: Mask) -> Mask:
    """Return the mask without short runs that stand alone: moments of a leak, to which aligners would put words."""
    runs = list_runs(mask).tolist()
    kept = mask.copy()
    for at, (start, end) in enumerate(runs):
        before = start - runs[at - 1][1] if at else len(mask)
        after = runs[at + 1][0] - end if at + 1 < len(runs) else len(mask)
        if end - start < _BLIP_FRAMES and min(before, after) >= _ALONE_FRAMES:
            kept[start:end] = False
    return kept


def _smooth(levels: Levels) -> Levels:
    powers = 10 ** (levels.astype(np.float64) / 10)
    kernel = np.ones(_SMOOTH_FRAMES) / _SMOOTH_FRAMES
    return np.asarray(10 * np.log10(np.convolve(powers, kernel, "same")[: len(powers)] + 1e-12), np.float32)
