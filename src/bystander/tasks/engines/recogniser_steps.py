"""What a recogniser's encoder makes of a growing clip: features of words more than of voices, for a small network.

At each step of 80 ms the encoder of a Whisper model hears the last 1.28 s, and what it says of the last 160 ms is the
step's features: four frames, each the mean over 40 ms. Nothing lies ahead of a step, so a clip fed in pieces has the
features of the whole. An encoder trained on 30 s takes less: its positions are counted from the window's start.

Levels are relative to the loudest frame so far, as in `log_mel_steps`, not to the window's as Whisper has them: else
the quiet of a pause would sound loud as soon as speech had left the window.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import Samples
from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.tasks.engines.log_mel_steps import (
    FORGOTTEN_DB_A_S,
    HOP_SAMPLES,
    SAMPLING_RATE,
    STEP_FRAMES,
    WINDOW_SAMPLES,
    Features,
)

MEL_BANDS = 80
WINDOW_FRAMES = 128
"""Hops of 10 ms that the encoder hears at each step; it makes one frame of two."""
STEP_HOPS = 8
STEP_SAMPLES = STEP_HOPS * HOP_SAMPLES
POOLED = 2
"""Frames of the encoder, 20 ms each, whose mean is a frame of a step."""
HEARING_THREADS = max(1, min(8, os.cpu_count() or 1))
"""Clips that are encoded at once, where so many are asked for; each by one thread, so that figures hang on none."""
_BATCH_STEPS = 8
_QUIETEST = -1.5
"""Level, a power of ten of the model's mel energies, below which nothing counts as the loudest."""
_LEAST_ENERGY = 1e-10
_TOP, _FLOOR = 1.5, -0.5
"""Of Whisper's features where speech is loud; they end 80 dB below."""

Encode = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]
"""From log-mel windows, shape (n, MEL_BANDS, WINDOW_FRAMES), to shape (n, WINDOW_FRAMES // 2, width)."""


class RecogniserEncoder:
    """The encoder of a Whisper model of CTranslate2, in 8 bits; opened by the first call, it can be pickled."""

    def __init__(self, folder: Path) -> None:
        """Take the model's folder; nothing is read yet."""
        self._folder = folder
        self._open_model()

    def _open_model(self) -> None:
        self._lock = threading.Lock()
        self._model: Any = None

    def __getstate__(self) -> Path:
        return self._folder

    def __setstate__(self, folder: Path) -> None:
        self._folder = folder
        self._open_model()

    def __call__(self, windows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the encodings of windows, see `Encode`.

        Raises:
            EngineSetupError: ctranslate2 is missing, or the folder holds no model that it can open.
            EngineError: the model failed.
        """
        model = self._get()
        import ctranslate2

        try:
            features = ctranslate2.StorageView.from_array(np.ascontiguousarray(windows, np.float32))
            encoded = np.array(model.encode(features, to_cpu=True).to(ctranslate2.DataType.float32))
        except Exception as exc:  # CTranslate2 raises RuntimeError and ValueError
            raise EngineError(f"{self._folder}: the recogniser's encoder failed ({exc})") from exc
        return np.asarray(encoded, np.float32)

    @property
    def width(self) -> int:
        """Numbers of a frame; opens the model."""
        return int(self(np.full((1, MEL_BANDS, WINDOW_FRAMES), _FLOOR, np.float32)).shape[2])

    def close(self) -> None:
        """Let go of the model; another call opens it again."""
        with self._lock:
            self._model = None

    def _get(self) -> Any:
        with self._lock:
            if self._model is None:
                try:
                    import ctranslate2
                except ImportError as exc:
                    raise EngineSetupError("the package ctranslate2 is missing; run: pip install ctranslate2") from exc
                try:
                    self._model = ctranslate2.models.Whisper(
                        str(self._folder),
                        device="cpu",
                        compute_type="int8",
                        inter_threads=HEARING_THREADS,
                        intra_threads=1,
                    )
                except Exception as exc:  # CTranslate2 raises RuntimeError and ValueError
                    reason = str(exc).splitlines()[0][:160]
                    raise EngineSetupError(
                        f"{self._folder}: is no Whisper model that CTranslate2 can open ({reason}); fetch it again "
                        "with `bystander models fetch`"
                    ) from exc
            return self._model


class RecogniserSteps:
    """The features of one clip, step by step."""

    def __init__(self, encode: Encode, width: int) -> None:
        """Take the encoder, and how many numbers a frame of its has."""
        self._encode = encode
        self._width = width
        self._heard = np.zeros(WINDOW_SAMPLES - HOP_SAMPLES, np.float32)  # silence before the clip
        self._mel = np.full((WINDOW_FRAMES, MEL_BANDS), _FLOOR, np.float32)
        self._frames = 0
        self._loudest = -np.inf

    def accept(self, samples: Samples) -> Features:
        """Hear more of the clip, and return the features of the steps that it completes.

        Args:
            samples: shape (n,), float32 in [-1, 1], 16 kHz; any length.

        Returns:
            Shape (steps, STEP_FRAMES, width), float32.

        Raises: as `RecogniserEncoder`.
        """
        self._heard = np.concatenate([self._heard, np.asarray(samples, np.float32)])
        before = WINDOW_SAMPLES - HOP_SAMPLES
        steps = (len(self._heard) - before) // STEP_SAMPLES
        if steps <= 0:
            return np.zeros((0, STEP_FRAMES, self._width), np.float32)
        used = self._heard[: steps * STEP_SAMPLES + before]
        self._heard = self._heard[steps * STEP_SAMPLES :]
        mel = np.concatenate([self._mel, self._measure_mel(used)])
        self._mel = mel[-WINDOW_FRAMES:]
        ends = WINDOW_FRAMES + STEP_HOPS * np.arange(1, steps + 1)
        found = []
        for start in range(0, steps, _BATCH_STEPS):
            windows = np.stack([mel[end - WINDOW_FRAMES : end].T for end in ends[start : start + _BATCH_STEPS]])
            last = self._encode(windows)[:, -STEP_FRAMES * POOLED :]
            found.append(last.reshape(len(windows), STEP_FRAMES, POOLED, -1).mean(axis=2))
        return np.concatenate(found)

    def _measure_mel(self, samples: Samples) -> npt.NDArray[np.float32]:
        """Return a log-mel frame each hop, of the 25 ms that end there, relative to the loudest so far."""
        windows = np.lib.stride_tricks.sliding_window_view(samples, WINDOW_SAMPLES)[::HOP_SAMPLES]
        spectrum = np.fft.rfft(windows * np.hanning(WINDOW_SAMPLES + 1)[:-1].astype(np.float32), axis=1)
        power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32)
        # Step by step: the rounding of one large product hangs on how many rows it has.
        energies = power.reshape(-1, STEP_HOPS, power.shape[1]) @ make_whisper_filters()
        levels = np.log10(np.maximum(energies.reshape(-1, MEL_BANDS), _LEAST_ENERGY))
        forgotten = FORGOTTEN_DB_A_S / 10 * HOP_SAMPLES / SAMPLING_RATE
        sunk = forgotten * np.arange(self._frames, self._frames + len(levels))
        peaks = levels.max(axis=1).astype(np.float64) + sunk
        rising = np.maximum.accumulate(np.concatenate([[self._loudest], peaks]))[1:]
        self._frames += len(levels)
        self._loudest = rising[-1]
        loudest = np.maximum(rising - sunk, _QUIETEST)[:, np.newaxis]
        relative: Features = np.maximum((levels - loudest) / 4 + _TOP, _FLOOR).astype(np.float32)
        return relative


@cache
def make_whisper_filters() -> npt.NDArray[np.float32]:
    """Return the triangular filters that Whisper was trained on, shape (WINDOW_SAMPLES // 2 + 1, MEL_BANDS).

    Their centres are even on Slaney's mel scale from 0 to 8 kHz: linear up to 1 kHz, logarithmic above; each has an
    area of 1 Hz.
    """
    break_hz, linear_hz, growth = 1000.0, 200 / 3, np.log(6.4) / 27
    top = break_hz / linear_hz + np.log(SAMPLING_RATE / 2 / break_hz) / growth
    mels = np.linspace(0.0, top, MEL_BANDS + 2)
    above = mels - break_hz / linear_hz
    edges = np.where(above < 0, mels * linear_hz, break_hz * np.exp(growth * np.maximum(above, 0)))
    hertz = np.arange(WINDOW_SAMPLES // 2 + 1)[:, np.newaxis] * SAMPLING_RATE / WINDOW_SAMPLES
    rising = (hertz - edges[:-2]) / np.diff(edges)[:-1]
    falling = (edges[2:] - hertz) / np.diff(edges)[1:]
    areas = 2 / (edges[2:] - edges[:-2])
    filters: Features = (np.maximum(0, np.minimum(rising, falling)) * areas).astype(np.float32)
    return filters
