"""The simplest detector: a frame is speech where its level lies well above an adaptive noise floor.

The floor is the lowest frame level of the last seconds (minimum statistics in their plainest form), kept between the
absolute level that counts at all and a ceiling, below which even a clip that begins with speech finds it.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from bystander.schemas.detector_configs import EnergyVadConfig
from bystander.schemas.engines import EngineIdentity, Samples
from bystander.tasks.engines.detector_frames import RunLength
from bystander.tasks.engines.model_revision import ResolveModel

SAMPLING_RATE = 16000
_REVISION = "1"


class EnergyVadDetector:
    """Stops after some frames in a row that are loud against the noise floor."""

    def __init__(self, config: EnergyVadConfig, resolve_model: ResolveModel | None = None) -> None:  # noqa: ARG002 - adapters are built alike
        self._config = config

    @property
    def identity(self) -> EngineIdentity:
        """Raised in revision whenever the same settings would stop elsewhere."""
        settings = sorted(self._config.model_dump(exclude={"engine"}).items())
        return EngineIdentity(
            "detector", "energy_vad", "energy", _REVISION, tuple((key, f"{value:g}") for key, value in settings)
        )

    @property
    def sampling_rate(self) -> int:
        return SAMPLING_RATE

    @property
    def chunk_samples(self) -> int:
        return self._config.frame_ms * SAMPLING_RATE // 1000

    def open_stream(self) -> EnergyVadStream:
        """Return a new stream."""
        return EnergyVadStream(self._config)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class EnergyVadStream:
    """One clip; its noise floor is of what it has heard so far."""

    def __init__(self, config: EnergyVadConfig) -> None:
        self._config = config
        self._run = RunLength(config.frames_to_trigger)
        self._window = max(1, round(1000 * config.floor_window_s / config.frame_ms))
        self._lowest: deque[tuple[int, float]] = deque()  # rising levels with their frames: the first is the minimum
        self._frame = 0

    def accept(self, chunk: Samples) -> bool:
        """Hear one frame, and say whether it ends a long enough run of loud ones."""
        level = _measure_level(chunk)
        floor = min(self._track_floor(level), self._config.max_floor_dbfs)
        return self._run.add(level >= max(self._config.min_level_dbfs, floor + self._config.margin_db))

    def _track_floor(self, level: float) -> float:
        """Return the lowest level of the window that ends with this frame, in amortised constant time."""
        while self._lowest and self._lowest[-1][1] >= level:
            self._lowest.pop()
        self._lowest.append((self._frame, level))
        if self._lowest[0][0] <= self._frame - self._window:
            self._lowest.popleft()
        self._frame += 1
        return self._lowest[0][1]


def _measure_level(chunk: Samples) -> float:
    """Return the RMS level in dB relative to full scale; -inf for digital silence."""
    power = float(np.mean(np.square(chunk, dtype=np.float64))) if len(chunk) else 0.0
    return 10 * float(np.log10(power)) if power > 0 else -np.inf
