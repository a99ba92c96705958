"""Whether a take was recorded well enough: loud enough, not cut flat, and with one speaker a channel."""

from __future__ import annotations

import numpy as np

from bystander.schemas.engines import RowFault, Samples
from bystander.schemas.recording_session import ImportSettings
from bystander.schemas.recordings import Channels
from bystander.tasks.audio.levels import SILENCE_DBFS, measure_peak, measure_rms_dbfs
from bystander.tasks.audio.speech_activity import FRAME_S, measure_levels

_FLAT = 0.999
"""Share of the largest magnitude from which a sample counts as cut flat. Speech that is not has a few of them."""
_MIN_FLAT_SAMPLES = 8
_NO_NOISE_FRAMES = 0.02
"""Quiet frames are as loud as the lowest fiftieth: recordings that are cut close to the speech have few of them."""
_LOUD_DB = 15.0
_SPREAD_QUANTILE = 0.1
_LOUD_QUANTILE = 0.95


def drop_idle_channel(samples: Channels, min_level_dbfs: float) -> Channels:
    """Return one channel of two where both hold the same sound, or where one of them was never spoken into.

    Shape (n, 2) becomes (n, 1); all else is returned as it is.
    """
    if samples.shape[1] != 2 or not len(samples):
        return samples
    peak = measure_peak(samples.reshape(-1))
    if float(np.abs(samples[:, 0] - samples[:, 1]).max()) <= 1e-3 * peak:
        return samples[:, :1]
    rms = [measure_rms_dbfs(samples[:, channel]) for channel in (0, 1)]
    for idle in (0, 1):
        if rms[idle] < min_level_dbfs - 15 and rms[1 - idle] > rms[idle] + 30:
            return samples[:, 1 - idle : 2 - idle]
    return samples


def measure_separation_db(samples: Channels, rate: int) -> float:
    """Return by how much a speaker is louder on the own channel than on the other one, between the two speakers.

    Half the spread, from the 10th to the 90th percentile, of the difference of the channels' levels in the loud frames.
    Different gains of the two channels have no part in it. 0 where nothing is there.
    """
    first, second = (measure_levels(np.ascontiguousarray(samples[:, channel]), rate) for channel in (0, 1))
    louder = np.maximum(first, second)
    if not len(louder) or float(louder.max()) <= SILENCE_DBFS:
        return 0.0
    distance = (first - second)[louder > louder.max() - _LOUD_DB]
    low, high = np.quantile(distance, [_SPREAD_QUANTILE, 1 - _SPREAD_QUANTILE])
    return float(high - low) / 2


def find_quiet_line(
    channel: Samples, rate: int, start_s: float, end_s: float, speaker: str, settings: ImportSettings
) -> RowFault | None:
    """Return why a line, from `start_s` to `end_s` of its channel, is no good (`too_quiet`); None if it is."""
    line = np.ascontiguousarray(channel[round(start_s * rate) : round(end_s * rate)])
    level = measure_rms_dbfs(line)
    if level < settings.min_level_dbfs:
        detail = f"{speaker} is at {level:.0f} dBFS, at least {settings.min_level_dbfs:g}: turn the microphone up"
        return RowFault("too_quiet", detail)
    noise = float(np.quantile(measure_levels(np.ascontiguousarray(channel), rate), _NO_NOISE_FRAMES))
    if level - noise < settings.min_above_noise_db:
        detail = f"{speaker} is {level - noise:.0f} dB above the noise, at least {settings.min_above_noise_db:g}"
        return RowFault("too_quiet", f"{detail}: go nearer to the microphone, or to a quieter place")
    return None


def find_recording_fault(samples: Channels, rate: int, settings: ImportSettings) -> RowFault | None:
    """Return why a take's recording is no good before anybody listens to its words: `too_quiet`, `clipped`.

    Quiet is what nowhere rises above the noise on its louder channel. Samples cut flat are counted in loud frames.
    """
    distances = []
    for number, channel in enumerate(samples.T, 1):
        levels = measure_levels(np.ascontiguousarray(channel), rate)
        if not len(levels):
            continue
        loud = float(np.quantile(levels, _LOUD_QUANTILE))
        distances.append(loud - float(np.quantile(levels, _NO_NOISE_FRAMES)))
        flat = int(np.count_nonzero(np.abs(channel) >= _FLAT * measure_peak(np.ascontiguousarray(channel))))
        share = flat / max(1.0, np.count_nonzero(levels > loud - _LOUD_DB) * FRAME_S * rate)
        if loud > settings.min_level_dbfs and flat >= _MIN_FLAT_SAMPLES and share > settings.max_clipped_share:
            limit = f"at most {settings.max_clipped_share:.2%}"
            detail = f"{share:.2%} of the loud samples of channel {number} are cut flat, {limit}"
            return RowFault("clipped", f"{detail}: turn the microphone down and record it again")
    if not distances or max(distances) < settings.min_above_noise_db:
        detail = f"nothing rises {settings.min_above_noise_db:g} dB above the noise"
        return RowFault("too_quiet", f"{detail}: go nearer to the microphone, or to a quieter place")
    return None
