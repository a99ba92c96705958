"""Where each channel of a recording has its own speaker's speech."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bystander.schemas.activity import ActivityRequest, VoiceActivityDetector
from bystander.schemas.engines import RowFault
from bystander.tasks.audio.channel_separation import ChannelSeparation, find_leaked, measure_separation
from bystander.tasks.audio.channels import ChannelValues
from bystander.tasks.audio.coding import dequantise
from bystander.tasks.audio.speech_activity import (
    FRAME_S,
    Mask,
    estimate_floor,
    find_energetic,
    list_runs,
    mark_spans,
    measure_levels,
)

_MIN_RUN_S, _MAX_GAP_S = 0.06, 0.1


@dataclass(frozen=True, slots=True)
class OwnSpeech:
    """What each channel has.

    `sounding` says in which frames (of `FRAME_S`) a channel has speech of anybody, `speech` in which it has its own
    speaker's: what leaks over from the other channel is left out. Both have shape (frames,) for each channel.
    """

    sounding: tuple[Mask, Mask]
    speech: tuple[Mask, Mask]
    separation: ChannelSeparation


def find_own_speech(values: ChannelValues, rate: int, vad: VoiceActivityDetector | None = None) -> OwnSpeech | RowFault:
    """Find the speech of each channel by the detector, or by energy where there is none.

    Args:
        values: 16-bit, shape (n, 2).
        rate: sampling rate in Hz.
        vad: a voice activity detector; its faults are `vad_fault`.
    """
    levels = [measure_levels(np.ascontiguousarray(values[:, channel]), rate) for channel in (0, 1)]
    separation = measure_separation(levels[0], levels[1])
    sounding: list[Mask] = []
    for channel in (0, 1):
        if vad is None:
            sounding.append(find_energetic(levels[channel], estimate_floor(levels[channel])))
            continue
        (spans,) = vad.find_speech([ActivityRequest(dequantise(np.ascontiguousarray(values[:, channel])), rate)])
        if isinstance(spans, RowFault):
            return RowFault("vad_fault", f"channel {channel}: {spans.reason}: {spans.detail}")
        sounding.append(mark_spans(spans, len(levels[channel])))
    low, high = separation.differences_db
    speech = [
        _tidy(sounding[channel] & ~find_leaked(levels[channel], levels[1 - channel], leak))
        for channel, leak in ((0, -low), (1, high))
    ]
    return OwnSpeech((sounding[0], sounding[1]), (speech[0], speech[1]), separation)


def _tidy(mask: Mask) -> Mask:
    """Fill gaps of up to 100 ms, which syllables drowned by the other speaker make; then drop what is below 60 ms."""
    closed = np.zeros_like(mask)
    runs = merge_runs(mask, _MAX_GAP_S)
    for start, end in runs:
        if (end - start) * FRAME_S >= _MIN_RUN_S:
            closed[start:end] = True
    return closed


def merge_runs(mask: Mask, max_gap_s: float) -> list[tuple[int, int]]:
    """Return the mask's runs as first frames and frames after the last, those at most `max_gap_s` apart as one."""
    merged: list[tuple[int, int]] = []
    for start, end in list_runs(mask).tolist():
        if merged and (start - merged[-1][1]) * FRAME_S <= max_gap_s + 1e-9:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged
