"""Audio as a listener hears it who cannot hear ahead: resampling with a finite, known look-ahead."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from bystander.schemas.engines import Samples

HALF_FILTER = 10
"""Zero crossings on either side of the filter's middle; as `scipy.signal.resample_poly` has it."""
_KAISER_BETA = 5.0


@dataclass(frozen=True, slots=True)
class HeardAudio:
    """Audio at a listener's rate, and how much later than its own time a sample of it can be known.

    `samples` has shape (n,), float32. A sample at time t of the clip is computed from the clip up to `lookahead_s`
    after t, so whoever uses it has heard so far.
    """

    samples: Samples
    lookahead_s: float


def resample_for_listener(samples: Samples, from_rate: int, to_rate: int) -> HeardAudio:
    """Return audio at another rate in Hz, by a polyphase filter whose reach is finite.

    soxr, which resamples elsewhere, does not tell how far its filters reach. This one reaches `HALF_FILTER` samples of
    the lower of the two rates ahead (1.25 ms at 8 kHz), and the beginning of a clip gives exactly the beginning of what
    the whole gives.
    """
    if from_rate == to_rate or not len(samples):
        return HeardAudio(np.ascontiguousarray(samples, np.float32), 0.0)
    from scipy.signal import firwin, resample_poly

    divisor = gcd(from_rate, to_rate)
    up, down = to_rate // divisor, from_rate // divisor
    reach = HALF_FILTER * max(up, down)  # in samples at up * from_rate
    window = firwin(2 * reach + 1, 1.0 / max(up, down), window=("kaiser", _KAISER_BETA)).astype(np.float32)
    heard = resample_poly(np.ascontiguousarray(samples, np.float32), up, down, window=window)
    return HeardAudio(np.asarray(heard, np.float32), reach / (up * from_rate))
