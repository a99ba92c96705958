"""Where the first sound of a clean clip begins and the last one ends, within milliseconds.

For synthesised speech, whose background is far below anything spoken. `trim_speech` keeps whole clips whole; this tells
the time of a first phone. Voiceless fricatives (s, f, h) begin 30 to 40 dB below the vowel that follows, most of it
above 2 kHz, where the vowel has little: a first difference raises them by some 15 dB against it, so that one threshold
finds both them and vowels. A stop (p, t, k) begins with its burst: its silent closure cannot be heard after a pause.

How sure is it? Moving the threshold by 6 dB either way moves the onset of Kokoro's clips by 4 to 8 ms (median), in 9
of 10 by 40 ms at most (`benchmarks/word_time_accuracy.py`; the clips' background is 70 dB below their loudest frame).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import Samples

ONSET_DB = 36.0
"""Speech begins where the level of the differenced signal comes within this distance of its loudest frame."""
_HOP_S = 0.002
_FRAME_S = 0.008
_HOLD_S = 0.02
_BREAK_S = 0.008


def measure_edge_levels(samples: Samples, rate: int) -> npt.NDArray[np.float64]:
    """Return the level of the first difference in dB below its loudest frame, shape (1 + n // hop,), hop 2 ms.

    Frames are 8 ms long; frame k is centred on k * hop. All are minus infinity in digital silence.
    """
    hop, size = max(1, round(_HOP_S * rate)), max(1, round(_FRAME_S * rate))
    squares = np.diff(samples.astype(np.float64), prepend=0.0) ** 2
    sums = np.concatenate([[0.0], np.cumsum(squares)])
    centres = np.arange(1 + len(samples) // hop) * hop
    first, last = np.maximum(centres - size // 2, 0), np.minimum(centres + size - size // 2, len(samples))
    powers = np.maximum(sums[last] - sums[first], 0.0)
    loudest = float(powers.max())
    if loudest == 0:
        return np.full(len(powers), -np.inf)
    with np.errstate(divide="ignore"):
        levels: npt.NDArray[np.float64] = 10 * np.log10(powers / loudest)
    return levels


def find_sounding(samples: Samples, rate: int, below_db: float = ONSET_DB) -> npt.NDArray[np.float64]:
    """Return where there is sound: starts and ends in seconds, shape (stretches, 2); none in digital silence.

    Sound that lasts less than 20 ms is a click, no speech; dips of up to 8 ms are bridged. A stretch begins at the
    centre of its first frame, which is where the level rises through the threshold, within the frame's 8 ms.
    """
    levels = measure_edge_levels(samples, rate)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], levels > -below_db, [False]]).astype(np.int8)))
    hop_s = max(1, round(_HOP_S * rate)) / rate
    stretches: list[list[float]] = []
    for start, end in edges.reshape(-1, 2) * hop_s:
        if stretches and start - stretches[-1][1] <= _BREAK_S:
            stretches[-1][1] = end
        else:
            stretches.append([start, end])
    kept = [stretch for stretch in stretches if stretch[1] - stretch[0] >= _HOLD_S]
    return np.array(kept, np.float64).reshape(-1, 2)


def find_speech_start(samples: Samples, rate: int, near_s: float, reach_s: float, pause_s: float) -> float | None:
    """Return when a word begins that a pause precedes, in seconds: the rise of sound nearest to where it is expected.

    None where no sound rises within `reach_s` of `near_s` after at least `pause_s` without any: the word follows the
    one before it without a pause, and only a model of its sounds could tell where it begins.
    """
    stretches = find_sounding(samples, rate)
    if not len(stretches):
        return None
    ends_before = np.concatenate([[-np.inf], stretches[:-1, 1]])
    rises = [
        float(start)
        for start, before in zip(stretches[:, 0], ends_before, strict=True)
        if start - before >= pause_s and abs(start - near_s) <= reach_s
    ]
    return min(rises, key=lambda rise: abs(rise - near_s), default=None)
