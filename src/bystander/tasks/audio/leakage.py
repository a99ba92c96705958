"""The level at which one channel's voice leaks into the other, frame by frame, where it is known who speaks when.

`channel_separation` measures whole recordings of which nothing is known; this asks the transcript when the other
speaker speaks alone, and so holds for recordings in which they hardly ever do.
"""

from __future__ import annotations

import numpy as np

from bystander.tasks.audio.levels import SILENCE_DBFS
from bystander.tasks.audio.speech_activity import Levels, Mask

_ABOVE_FLOOR_DB = 6.0
_LOUD_QUANTILE = 0.8
_MIN_FRAMES = 25
_MIN_SHARE = 0.7
_REACH = 3
"""Frames by which a leak may lag or lead: 30 ms of echo path."""


def predict_leak(levels: Levels, floor: Levels, other: Levels, other_speech: Mask, own: Mask) -> Levels:
    """Return the level that the other channel's voice alone would have in this one, in dBFS: shape (frames,).

    The leak is measured where the other is loudest (a fifth of the frames in which the other speaks and this speaker,
    by the transcript, does not): the median distance of the two levels there. A leak is there whenever the other is
    loud; so where fewer than 70 % of those frames stand out of this channel's noise, what does is something else (this
    speaker, not transcribed), nothing leaks that could be heard, and the level is `SILENCE_DBFS`.

    Args:
        levels: of this channel.
        floor: its noise floor.
        other: levels of the other channel.
        other_speech: where the other channel has speech.
        own: where this channel's speaker may speak.
    """
    frames = len(levels)
    padded = np.pad(other, _REACH, constant_values=SILENCE_DBFS)
    around = np.max([padded[shift : shift + frames] for shift in range(2 * _REACH + 1)], axis=0)
    alone = other_speech & ~own
    none = np.full(frames, SILENCE_DBFS, np.float32)
    if np.count_nonzero(alone) < _MIN_FRAMES / (1 - _LOUD_QUANTILE):
        return none
    loud = alone & (around >= np.quantile(around[alone], _LOUD_QUANTILE))
    heard = loud & (levels > floor + _ABOVE_FLOOR_DB)
    if np.count_nonzero(heard) < _MIN_SHARE * np.count_nonzero(loud):
        return none
    distance = float(np.median(around[heard] - levels[heard]))
    return np.asarray(around - max(0.0, distance), np.float32)
