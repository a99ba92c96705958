"""Smoothing over chunks: one positive may be jitter, K in a row are a decision (SID paper, IV-C)."""

from __future__ import annotations

from bystander.schemas.detection import Detector, DetectorStream
from bystander.schemas.detector_configs import KConsecutiveConfig
from bystander.schemas.engines import EngineIdentity, Samples
from bystander.tasks.engines.detector_frames import RunLength


class KConsecutiveDetector:
    """Stops at the last of `k` chunks in a row at which the detector within would stop."""

    def __init__(self, config: KConsecutiveConfig, detector: Detector) -> None:
        """Take the detector within, which is closed with this one."""
        self._k = config.k
        self._detector = detector

    @property
    def identity(self) -> EngineIdentity:
        inner = self._detector.identity
        return EngineIdentity(
            "detector", "k_consecutive", inner.model, inner.digest(), (("k", str(self._k)), ("of", inner.name))
        )

    @property
    def sampling_rate(self) -> int:
        return self._detector.sampling_rate

    @property
    def chunk_samples(self) -> int:
        return self._detector.chunk_samples

    def open_stream(self) -> DetectorStream:
        """Return a new stream around a new one of the detector within."""
        return _KConsecutiveStream(self._k, self._detector.open_stream())

    def close(self) -> None:
        self._detector.close()


class _KConsecutiveStream:
    def __init__(self, k: int, stream: DetectorStream) -> None:
        self._run = RunLength(k)
        self._stream = stream

    def accept(self, chunk: Samples) -> bool:
        return self._run.add(self._stream.accept(chunk))
