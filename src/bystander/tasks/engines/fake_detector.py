"""A deterministic detector without a model: it stops at the first loud sample."""

from __future__ import annotations

import numpy as np

from bystander.schemas.detector_configs import FakeDetectorConfig
from bystander.schemas.engines import EngineIdentity, Samples
from bystander.tasks.engines.model_revision import ResolveModel

_REVISION = "1"
SAMPLING_RATE, CHUNK_SAMPLES = 16000, 320


class FakeDetector:
    """Says of each chunk whether it has a sample above `level`."""

    def __init__(self, config: FakeDetectorConfig | None = None, resolve_model: ResolveModel | None = None) -> None:  # noqa: ARG002
        self._config = config or FakeDetectorConfig()

    @property
    def identity(self) -> EngineIdentity:
        """Raised in revision whenever it would stop elsewhere."""
        return EngineIdentity("detector", "fake_detector", "fake", _REVISION, (("level", f"{self._config.level:g}"),))

    @property
    def sampling_rate(self) -> int:
        return SAMPLING_RATE

    @property
    def chunk_samples(self) -> int:
        return CHUNK_SAMPLES

    def open_stream(self) -> _FakeStream:
        """Return a new stream."""
        return _FakeStream(self._config.level)

    def close(self) -> None:
        """Do nothing."""


class _FakeStream:
    def __init__(self, level: float) -> None:
        self._level = level

    def accept(self, chunk: Samples) -> bool:
        return bool(np.max(np.abs(chunk), initial=0.0) > self._level)
