"""Where speech begins and ends, cutting to it, and the pauses within."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bystander.schemas.engines import Samples

_FRAME_S = 0.02
_HOP_S = 0.005
FADE_S = 0.005
"""Length of the fades at a cut: long enough to make no click, shorter than the margin, so that speech stays whole."""


@dataclass(frozen=True, slots=True)
class TrimmedSpeech:
    """A clip cut to its speech, and its longest pause in seconds."""

    samples: Samples
    longest_silence_s: float


def trim_speech(samples: Samples, rate: int, top_db: float, margin_s: float, fade_s: float = FADE_S) -> TrimmedSpeech:
    """Cut leading and trailing silence, keep a margin, and fade the edges.

    Frames of 20 ms every 5 ms count as silence when their RMS is `top_db` or more below that of the loudest frame
    (librosa's rule, with finer frames than its 93 ms, which would leave up to 40 ms of silence at each end).

    Args:
        samples: shape (n,), finite.
        rate: sampling rate in Hz.
        top_db: distance in dB, above 0.
        margin_s: kept on either side of the speech, as far as there is audio.
        fade_s: length of the fade at each edge.

    Returns:
        The speech; empty where the clip is digital silence.
    """
    if not len(samples) or not np.any(samples):
        return TrimmedSpeech(samples[:0], 0.0)
    from librosa.effects import split

    frame, hop = max(2, round(_FRAME_S * rate)), max(1, round(_HOP_S * rate))
    spans = split(samples, top_db=top_db, frame_length=frame, hop_length=hop)
    margin = round(margin_s * rate)
    start, end = max(0, int(spans[0, 0]) - margin), min(len(samples), int(spans[-1, 1]) + margin)
    gaps = spans[1:, 0] - spans[:-1, 1]
    longest = float(gaps.max()) / rate if len(gaps) else 0.0
    return TrimmedSpeech(fade_edges(samples[start:end], round(fade_s * rate)), longest)


def fade_edges(samples: Samples, length: int) -> Samples:
    """Return a copy whose first and last `length` samples rise from 0 and fall to it along a raised cosine."""
    faded = np.array(samples, dtype=np.float32)
    length = min(length, len(faded) // 2)
    if length > 0:
        ramp = (0.5 - 0.5 * np.cos(np.pi * np.arange(length) / length)).astype(np.float32)
        faded[:length] *= ramp
        faded[-length:] *= ramp[::-1]
    return faded
