"""Loudness of a clip after EBU R128, or simply its RMS.

EBU R128 measures as ITU-R BS.1770-4 says: K-weighting, blocks of 400 ms that overlap by three quarters, an absolute
gate at -70 LUFS and a relative one 10 LU below the loudness of what passed the first. The filters are pyloudnorm's; the
gating is done here over all blocks at once, because pyloudnorm's loop over blocks takes more than twice as long, and
this is the dearest step of mixing beside FLAC. A test holds the two to the same values.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import Samples
from bystander.tasks.audio.levels import SILENCE_DBFS, measure_rms_dbfs

BLOCK_S = 0.4
_HOPS_PER_BLOCK = 4
_OFFSET_LUFS = -0.691
_ABSOLUTE_GATE_LUFS = -70.0
_RELATIVE_GATE_LU = -10.0

LoudnessMethod = Literal["ebu_r128", "rms"]


def measure_loudness(samples: Samples, rate: int, method: LoudnessMethod) -> float:
    """Return the loudness in LUFS (`ebu_r128`) or dBFS (`rms`); `SILENCE_DBFS` for silence."""
    return measure_lufs(samples, rate) if method == "ebu_r128" else measure_rms_dbfs(samples)


def measure_lufs(samples: Samples, rate: int) -> float:
    """Return the integrated loudness in LUFS.

    A clip shorter than one block of 400 ms cannot be gated: it gets the level of its K-weighted RMS on the same scale.
    A clip that the absolute gate swallows whole gets `SILENCE_DBFS`.
    """
    if not len(samples):
        return SILENCE_DBFS
    numerator, denominator = _design_k_weighting(rate)
    from scipy.signal import lfilter

    power = np.square(lfilter(numerator, denominator, samples.astype(np.float64)))
    if len(samples) < BLOCK_S * rate:
        return _to_lufs(float(np.mean(power)))
    blocks = _average_blocks(power, rate)
    passed = blocks[blocks >= 10 ** ((_ABSOLUTE_GATE_LUFS - _OFFSET_LUFS) / 10)]
    if not len(passed):
        return SILENCE_DBFS
    gate = float(np.mean(passed)) * 10 ** (_RELATIVE_GATE_LU / 10)
    return _to_lufs(float(np.mean(passed[passed > gate])))


@cache
def _design_k_weighting(rate: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return both K-weighting stages as one filter of fourth order: one pass over the samples instead of two."""
    from pyloudnorm.iirfilter import IIRfilter

    shelf = IIRfilter(4.0, 1 / np.sqrt(2), 1500.0, rate, "high_shelf")
    high_pass = IIRfilter(0.0, 0.5, 38.0, rate, "high_pass")
    gain = shelf.passband_gain * high_pass.passband_gain
    return np.convolve(shelf.b, high_pass.b) * gain, np.convolve(shelf.a, high_pass.a)


def _average_blocks(power: npt.NDArray[np.float64], rate: int) -> npt.NDArray[np.float64]:
    """Return the mean power of each block of 400 ms, one every 100 ms; shape (blocks,)."""
    hop_s = BLOCK_S / _HOPS_PER_BLOCK
    count = int(np.round((len(power) / rate - BLOCK_S) / hop_s)) + 1
    edges = (np.arange(count + _HOPS_PER_BLOCK) * hop_s * rate + 1e-6).astype(np.int64)
    if edges[-1] < len(power):
        power = power[: edges[-1]]
    sums = np.add.reduceat(power, edges[edges < len(power)])
    hops = np.zeros(len(edges) - 1)
    hops[: len(sums)] = sums[: len(hops)]
    total = np.concatenate([[0.0], np.cumsum(hops)])
    # The last block may reach past the end; BS.1770 divides by the whole block, and so does pyloudnorm.
    blocks: npt.NDArray[np.float64] = (total[_HOPS_PER_BLOCK:] - total[:-_HOPS_PER_BLOCK]) / (BLOCK_S * rate)
    return blocks


def _to_lufs(power: float) -> float:
    return max(SILENCE_DBFS, _OFFSET_LUFS + 10 * float(np.log10(power))) if power > 0 else SILENCE_DBFS
