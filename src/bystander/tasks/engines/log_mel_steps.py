"""Log-mel features of a growing clip, in numpy: what a small causal network hears.

A frame is 25 ms of sound that ends where its hop of 10 ms does, so that nothing of it lies ahead. Four frames are a
step, the least time after which a network answers. A clip fed in pieces has bit for bit the features of the whole: each
step is computed by itself.

Levels are relative to the loudest frame so far, which is forgotten slowly: how far a user sits from the microphone does
not matter, and no future is needed to know it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import Samples

SAMPLING_RATE = 16000
HOP_SAMPLES, WINDOW_SAMPLES, TRANSFORM_SAMPLES = 160, 400, 512
STEP_FRAMES = 4
STEP_SAMPLES = HOP_SAMPLES * STEP_FRAMES
STEP_S = STEP_SAMPLES / SAMPLING_RATE
LOWEST_HZ, HIGHEST_HZ = 60.0, 7600.0
QUIETEST_DB = -55.0
"""Level, relative to full scale, below which nothing counts as the loudest: a silent room stays silent."""
FORGOTTEN_DB_A_S = 6.0
"""By how much the loudest level sinks in a second without a louder frame."""
_LEAST_POWER = 1e-9
_SPREAD_DB = 20.0
"""Features are divided by it, so that they spread about 1."""
_SCALE_POWER = 2.0 / WINDOW_SAMPLES**2 / 0.375  # of a Hann window: the power of a full-scale square wave is about 1

LEAST_FEATURE = -2.0
"""60 dB below the loudest: a finer floor would tell the recording's own level."""
EMPTY_FEATURE = -1.0
"""What the frames before a clip are taken for: about those of a quiet room."""

Features = npt.NDArray[np.float32]


class LogMelSteps:
    """The features of one clip, step by step."""

    def __init__(self, bands: int) -> None:
        self._bands = bands
        self._window = np.hanning(WINDOW_SAMPLES + 1)[:-1].astype(np.float32)
        self._filters = make_mel_filters(bands)
        self._heard = np.zeros(WINDOW_SAMPLES - HOP_SAMPLES, np.float32)  # silence before the clip
        self._frames = 0
        self._loudest = -np.inf

    def accept(self, samples: Samples) -> Features:
        """Hear more of the clip, and return the features of the steps that it completes.

        Args:
            samples: shape (n,), float32 in [-1, 1], 16 kHz; any length.

        Returns:
            Shape (steps, STEP_FRAMES, bands), float32: from LEAST_FEATURE, where a band is empty, to 1.
        """
        heard = np.concatenate([self._heard, np.asarray(samples, np.float32)])
        steps = (len(heard) - (WINDOW_SAMPLES - HOP_SAMPLES)) // STEP_SAMPLES
        if steps <= 0:
            self._heard = heard
            return np.zeros((0, STEP_FRAMES, self._bands), np.float32)
        frames = steps * STEP_FRAMES
        used = heard[: frames * HOP_SAMPLES + WINDOW_SAMPLES - HOP_SAMPLES]
        self._heard = heard[frames * HOP_SAMPLES :]
        windows = np.lib.stride_tricks.sliding_window_view(used, WINDOW_SAMPLES)[::HOP_SAMPLES] * self._window
        spectrum = np.fft.rfft(windows, TRANSFORM_SAMPLES, axis=1)
        power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32) * np.float32(_SCALE_POWER)
        # Step by step: the rounding of one large product hangs on how many rows it has.
        bands = power.reshape(steps, STEP_FRAMES, -1) @ self._filters
        levels = 10 * np.log10(np.maximum(bands, _LEAST_POWER))
        loudest = self._follow(levels.max(axis=2).reshape(-1).astype(np.float64)).reshape(steps, STEP_FRAMES, 1)
        relative: Features = np.maximum((levels - loudest) / _SPREAD_DB + 1, LEAST_FEATURE).astype(np.float32)
        return relative

    def _follow(self, levels_db: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the loudest level of each frame's past, itself included."""
        sunk = FORGOTTEN_DB_A_S * HOP_SAMPLES / SAMPLING_RATE * np.arange(self._frames, self._frames + len(levels_db))
        rising = np.maximum.accumulate(np.concatenate([[self._loudest], levels_db + sunk]))[1:]
        self._frames += len(levels_db)
        self._loudest = rising[-1]
        followed: npt.NDArray[np.float64] = np.maximum(rising - sunk, QUIETEST_DB)
        return followed


def measure_log_mel(samples: Samples, bands: int) -> Features:
    """Return the features of a whole clip, shape (whole steps, STEP_FRAMES, bands); see `LogMelSteps.accept`."""
    return LogMelSteps(bands).accept(samples)


@cache
def make_mel_filters(bands: int) -> Features:
    """Return triangular filters on the mel scale, shape (TRANSFORM_SAMPLES // 2 + 1, bands), float32, peaks of 1."""
    hertz = np.arange(TRANSFORM_SAMPLES // 2 + 1) * SAMPLING_RATE / TRANSFORM_SAMPLES
    low, high = (2595 * np.log10(1 + edge / 700) for edge in (LOWEST_HZ, HIGHEST_HZ))
    edges = 700 * (10 ** (np.linspace(low, high, bands + 2) / 2595) - 1)
    # Of bands narrower than the transform's bins, each still covers one.
    width = np.maximum(np.diff(edges), SAMPLING_RATE / TRANSFORM_SAMPLES)
    rising = (hertz[:, np.newaxis] - edges[1:-1]) / width[:-1] + 1
    falling = (edges[1:-1] - hertz[:, np.newaxis]) / width[1:] + 1
    filters: Features = np.clip(np.minimum(rising, falling), 0, None).astype(np.float32)
    return filters
