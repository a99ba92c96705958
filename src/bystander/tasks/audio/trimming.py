"""Where speech begins and ends, cutting to it, and the pauses within."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import Samples

_HOP_S = 0.005
_HOPS_PER_FRAME = 4
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
    (the rule of librosa's `split`, with finer frames than its 93 ms, which would leave up to 40 ms of silence at each
    end).

    Args:
        samples: shape (n,), finite.
        rate: sampling rate in Hz.
        top_db: distance in dB, above 0.
        margin_s: kept on either side of the speech, as far as there is audio.
        fade_s: length of the fade at each edge.

    Returns:
        The speech; empty where the clip is digital silence.
    """
    spans = find_speech(samples, rate, top_db)
    if not len(spans):
        return TrimmedSpeech(samples[:0], 0.0)
    margin = round(margin_s * rate)
    start, end = max(0, int(spans[0, 0]) - margin), min(len(samples), int(spans[-1, 1]) + margin)
    gaps = spans[1:, 0] - spans[:-1, 1]
    longest = float(gaps.max()) / rate if len(gaps) else 0.0
    return TrimmedSpeech(fade_edges(samples[start:end], round(fade_s * rate)), longest)


def find_speech(samples: Samples, rate: int, top_db: float) -> npt.NDArray[np.int64]:
    """Return where frames are not silent: shape (spans, 2), starts and ends in samples; none in digital silence.

    librosa's `split` gives the same spans, but in clips so quiet that their silence is its floor of -100 dB. It
    measures each frame anew, where this adds up quarters of frames, and importing it takes seconds.
    """
    if not len(samples):
        return np.empty((0, 2), np.int64)
    hop = max(1, round(_HOP_S * rate))
    count = 1 + len(samples) // hop
    # Frame k is centred on sample k * hop: two hops before it and two after, with silence beyond the ends.
    energies = np.zeros(count + _HOPS_PER_FRAME - 1)
    whole = len(samples) // hop
    quarters = samples[: whole * hop].reshape(whole, hop)
    half = _HOPS_PER_FRAME // 2
    energies[half : half + whole] = np.einsum("ij,ij->i", quarters, quarters, dtype=np.float64)
    rest = samples[whole * hop :].astype(np.float64)
    energies[half + whole] = float(np.sum(rest * rest))
    powers = sum(energies[k : k + count] for k in range(_HOPS_PER_FRAME))
    assert isinstance(powers, np.ndarray)
    loudest = float(powers.max())
    if loudest == 0:
        return np.empty((0, 2), np.int64)
    sounding = np.concatenate([[False], powers > loudest * 10 ** (-top_db / 10), [False]])
    edges = np.flatnonzero(np.diff(sounding.astype(np.int8)))
    return np.minimum(edges.reshape(-1, 2).astype(np.int64) * hop, len(samples))


def fade_edges(samples: Samples, length: int) -> Samples:
    """Return a copy whose first and last `length` samples rise from 0 and fall to it along a raised cosine."""
    faded = np.array(samples, dtype=np.float32)
    length = min(length, len(faded) // 2)
    if length > 0:
        ramp = (0.5 - 0.5 * np.cos(np.pi * np.arange(length) / length)).astype(np.float32)
        faded[:length] *= ramp
        faded[-length:] *= ramp[::-1]
    return faded
