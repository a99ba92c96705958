"""Near-silent stretches of a channel: nobody speaks, but the recording's own faint sounds are there."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bystander.tasks.audio.speech_activity import DIGITAL_SILENCE_DBFS, FRAME_S, Levels, Mask, list_runs

_GUARD_S = 0.2
"""Kept clear of speech: breaths in and the decay of the room belong to it."""
_RUSTLE_FRAMES = 5
_DIGITAL_FRAMES = 5
_MAX_DIGITAL_SHARE = 0.2


def find_near_silence(
    levels: Levels, floor: Levels, speech: Mask, min_s: float, above_floor_db: float, max_dbfs: float
) -> npt.NDArray[np.int64]:
    """Return near-silent stretches as first frames and frames after the last: shape (stretches, 2).

    Frames count where the level is at most `above_floor_db` above the floor and at most `max_dbfs`, and no speech is
    within 0.2 s. Short rustles (up to 50 ms, up to three times as far above the floor) do not end a stretch: subtle
    sounds are wanted. Digital silence is no recording: it ends a stretch where it lasts longer than 50 ms, and a
    stretch of which it is more than a fifth is left out.

    Args:
        levels: of the channel, in dBFS.
        floor: its noise floor.
        speech: which frames hold speech of any kind.
        min_s: least length.
        above_floor_db: distance in dB.
        max_dbfs: highest level.
    """
    guard = round(_GUARD_S / FRAME_S)
    near_speech = np.zeros(len(levels), bool)
    for start, end in list_runs(speech):
        near_speech[max(0, start - guard) : end + guard] = True
    quiet = (levels <= floor + above_floor_db) & (levels <= max_dbfs) & ~near_speech
    rustle = (levels <= floor + 3 * above_floor_db) & (levels <= max_dbfs) & ~near_speech
    for start, end in list_runs(~quiet):
        if end - start <= _RUSTLE_FRAMES and rustle[start:end].all() and start > 0 and end < len(levels):
            quiet[start:end] = True
    digital = levels <= DIGITAL_SILENCE_DBFS
    for start, end in list_runs(digital):
        if end - start > _DIGITAL_FRAMES:
            quiet[start:end] = False
    stretches = [
        (start, end)
        for start, end in list_runs(quiet)
        if (end - start) * FRAME_S >= min_s and np.mean(digital[start:end]) <= _MAX_DIGITAL_SHARE
    ]
    return np.array(stretches, np.int64).reshape(-1, 2)
