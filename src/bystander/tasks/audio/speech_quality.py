"""How good a clip of one speaker is as a reference: level of its speech, signal-to-noise ratio, share of clipping."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bystander.schemas.engines import Samples
from bystander.tasks.audio.levels import SILENCE_DBFS, measure_clipped_share
from bystander.tasks.audio.speech_activity import (
    DIGITAL_SILENCE_DBFS,
    FRAME_S,
    Levels,
    Mask,
    estimate_floor,
    find_energetic,
    list_runs,
    measure_levels,
)

MAX_SNR_DB = 70.0
"""The highest ratio that is stated: a recording of 16 bits holds little more, and a gate's silence no noise at all."""
_GUARD_FRAMES = 5
_LEAST_NOISE_FRAMES = 20
_FLOOR_QUANTILE = 0.05
_LOUD_QUANTILE = 0.95
_GATED_SHARE = 0.1
_LEAST_RANGE_DB = 15.0


@dataclass(frozen=True, slots=True)
class SpeechQuality:
    """What is measured of a clip. `speech_s` is how much of it its energy shows as speech; levels are of that."""

    level_dbfs: float
    snr_db: float
    clipped_share: float
    speech_s: float


def measure_quality(samples: Samples, rate: int) -> SpeechQuality:
    """Measure a clip of one speaker.

    The level is the RMS of the frames of 10 ms that `find_energetic` takes for speech; `SILENCE_DBFS` where there is
    none. The ratio is that level's power, less the noise's, over the noise's: the mean power of the other frames that
    are 50 ms and more from speech (breaths and the decay of words are no noise) and not digitally silent. Where there
    are fewer than 20 such frames, as in a clip cut to its words, the noise is the level that a twentieth of all frames
    lie below. The ratio lies in [0, `MAX_SNR_DB`].

    Held against synthesised speech with white noise put in (`benchmarks/voice_bank.py --snr`), it is within 1.5 dB from
    15 dB on, up to the speech's own background. Below, it reads too high, by 2.6 dB at 10, as only the loudest speech
    stands out of the noise.

    Args:
        samples: shape (n,), finite.
        rate: sampling rate in Hz.
    """
    levels = measure_levels(samples, rate)
    speech = find_speech_frames(levels)
    if not speech.any():
        return SpeechQuality(SILENCE_DBFS, 0.0, measure_clipped_share(samples), 0.0)
    power, noise = _average_power(levels[speech]), _measure_noise(levels, speech)
    ratio = max(power - noise, 0.0) / noise if noise > 0 else np.inf
    snr_db = float(np.clip(10 * np.log10(max(ratio, 1e-12)), 0.0, MAX_SNR_DB))
    level = max(SILENCE_DBFS, 10 * float(np.log10(power)))
    return SpeechQuality(level, snr_db, measure_clipped_share(samples), float(speech.sum()) * FRAME_S)


def find_speech_frames(levels: Levels) -> Mask:
    """Return which frames of one speaker's clip hold speech, by `find_energetic`.

    `estimate_floor` leaves digital silence out, and so takes the quieter speech of a gated recording for its noise:
    where a tenth of the frames within the clip is digitally silent and the floor comes within 15 dB of the loud frames,
    there is none.
    """
    floor = estimate_floor(levels)
    sounding = np.flatnonzero(levels > DIGITAL_SILENCE_DBFS)
    if len(sounding):
        within = levels[sounding[0] : sounding[-1] + 1]
        is_gated = np.mean(within <= DIGITAL_SILENCE_DBFS) >= _GATED_SHARE
        loud = float(np.quantile(levels[sounding], _LOUD_QUANTILE))
        if is_gated and loud - float(np.median(floor)) < _LEAST_RANGE_DB:
            floor = np.full(len(levels), SILENCE_DBFS, np.float32)
    return find_energetic(levels, floor)


def _measure_noise(levels: Levels, speech: Mask) -> float:
    """Return the power of the noise; 0 where all that is no speech is digital silence."""
    near = speech.copy()
    for start, end in list_runs(speech):
        near[max(0, start - _GUARD_FRAMES) : end + _GUARD_FRAMES] = True
    sounding = levels > DIGITAL_SILENCE_DBFS
    between = levels[~near & sounding]
    if len(between) >= _LEAST_NOISE_FRAMES:
        return float(10 ** (np.median(between) / 10))
    if not sounding.any() or (~near & ~sounding).sum() >= _LEAST_NOISE_FRAMES:
        return 0.0
    return float(10 ** (np.quantile(levels[sounding], _FLOOR_QUANTILE) / 10))


def _average_power(levels: Levels) -> float:
    return float(np.mean(10 ** (levels.astype(np.float64) / 10)))
