"""What the two-input model hears: a clip as a row of frames. Nothing of the row's segments or labels goes into them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import Samples
from bystander.schemas.train_tpi_config import TwoInputConfig
from bystander.tasks.engines.engine_audio import convert_rate
from bystander.tasks.engines.onnx_session import OnnxModel
from bystander.tasks.engines.onnx_verifier import (
    FFT_SIZE,
    HOP_SIZE,
    SAMPLING_RATE,
    WINDOW_FRAMES,
    WINDOW_STRIDE,
    compute_windows,
    set_level,
)

Frames = npt.NDArray[np.float32]
"""Shape (frames, width)."""

WINDOW_SAMPLES = (WINDOW_FRAMES - 1) * HOP_SIZE + FFT_SIZE
WINDOW_SHIFT = WINDOW_STRIDE * HOP_SIZE
"""A window of the speaker encoder lasts 0.82 s; the next begins 0.2 s later."""
MEL_BANDS = 40
MEL_HOP = 800
"""50 ms at 16 kHz."""
_QUIETEST = 10 ** (-50 / 20)


class SoundFront(Protocol):
    """Turns clips into frames."""

    width: int
    """Numbers a frame."""

    def compute(self, samples: Samples, sampling_rate: int) -> Frames:
        """Return the frames of a clip, at least one."""
        ...


class SpeakerWindows:
    """Embeddings of the speaker encoder, one a window: shape (windows, 256), of unit variance on average.

    With `flatten_level` each window is brought to the encoder's level by itself; else the clip is as a whole.
    """

    width = 256

    def __init__(self, path: Path, flatten_level: bool) -> None:
        self._model = OnnxModel(path)
        self._flatten_level = flatten_level

    def compute(self, samples: Samples, sampling_rate: int) -> Frames:
        audio = convert_rate(samples, sampling_rate, SAMPLING_RATE)
        audio = np.pad(audio, (0, max(0, WINDOW_SAMPLES - len(audio))))
        if self._flatten_level:
            starts = range(0, len(audio) - WINDOW_SAMPLES + 1, WINDOW_SHIFT)
            pieces = [_set_level_of_speech(audio[start : start + WINDOW_SAMPLES]) for start in starts]
            windows = np.concatenate([compute_windows(piece) for piece in pieces])
        else:
            windows = compute_windows(set_level(audio))
        (vectors,) = self._model.run({"mel_window": windows}, ["embedding"])
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-12
        frames: Frames = (vectors / lengths * np.sqrt(self.width)).astype(np.float32)
        return frames


class LogMelFrames:
    """Log-mel bands every 50 ms: shape (frames, 40), in units of 20 dB around the clip's level.

    With `flatten_level` each frame is taken around its own mean instead, which leaves its timbre and no level.
    """

    width = MEL_BANDS

    def __init__(self, flatten_level: bool) -> None:
        self._flatten_level = flatten_level

    def compute(self, samples: Samples, sampling_rate: int) -> Frames:
        audio = convert_rate(samples, sampling_rate, SAMPLING_RATE)
        audio = np.pad(audio, (0, max(0, MEL_HOP - len(audio))))
        pieces = audio[: len(audio) // MEL_HOP * MEL_HOP].reshape(-1, MEL_HOP).astype(np.float64)
        power = np.abs(np.fft.rfft(pieces * np.hanning(MEL_HOP), axis=1)) ** 2
        bands = np.log10(power @ _make_bands().T + 1e-7)
        bands -= bands.mean(axis=1, keepdims=True) if self._flatten_level else bands.mean()
        frames: Frames = bands.astype(np.float32)
        return frames


def open_sound_front(config: TwoInputConfig, resolve_model: Callable[[str], Path]) -> SoundFront:
    """Return what makes the frames that a configuration names.

    Raises:
        ModelStoreError: the speaker encoder is not in the store (from `resolve_model`).
    """
    if config.sound == "log_mel":
        return LogMelFrames(config.flatten_level)
    return SpeakerWindows(resolve_model(config.speaker_model), config.flatten_level)


def measure_window_levels(samples: Samples, sampling_rate: int) -> npt.NDArray[np.float64]:
    """Return the level of each fifth of a second that is not silent, in dB relative to full scale, at least one.

    For the control that hears levels alone. Silent is what lies 30 dB below the loudest.
    """
    size = max(1, int(0.2 * sampling_rate))
    audio = np.pad(samples, (0, max(0, size - len(samples)))).astype(np.float64)
    power = np.mean(audio[: len(audio) // size * size].reshape(-1, size) ** 2, axis=1)
    levels = 10 * np.log10(power + 1e-10)
    return np.asarray(levels[levels >= levels.max() - 30], np.float64)


def _set_level_of_speech(window: Samples) -> Samples:
    """Return a window at the encoder's level, or as it is where it is a pause, whose noise would become loud."""
    return set_level(window) if float(np.sqrt(np.mean(window.astype(np.float64) ** 2))) > _QUIETEST else window


@cache
def _make_bands() -> npt.NDArray[np.float32]:
    import librosa

    bands: npt.NDArray[np.float32] = librosa.filters.mel(sr=SAMPLING_RATE, n_fft=MEL_HOP, n_mels=MEL_BANDS)
    return bands
