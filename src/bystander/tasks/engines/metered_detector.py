"""A detector that counts what it computes, for reports. Counts never reach a row: they differ from run to run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from bystander.schemas.detection import Detector, DetectorStream
from bystander.schemas.engines import EngineIdentity, Samples


@dataclass(frozen=True, slots=True)
class ComputeTotals:
    """What a detector has done in this process: clips begun, seconds of audio heard, seconds to judge it.

    A clip is heard up to where the detector stops. Seconds are CPU time of the thread that asks, on which most
    detectors compute alone; of those that compute on threads of their own, the time that it waited.
    """

    clips: int = 0
    heard_s: float = 0.0
    compute_s: float = 0.0

    @property
    def real_time_factor(self) -> float | None:
        """Seconds to judge a second of audio; None if nothing was heard."""
        return self.compute_s / self.heard_s if self.heard_s else None


class MeteredDetector:
    """Passes everything on to a detector and keeps its totals; for any number of threads."""

    def __init__(self, detector: Detector, clock: Callable[[], float] = time.thread_time) -> None:
        self._detector = detector
        self._clock = clock
        self._lock = threading.Lock()
        self._totals = ComputeTotals()

    @property
    def identity(self) -> EngineIdentity:
        return self._detector.identity

    @property
    def sampling_rate(self) -> int:
        return self._detector.sampling_rate

    @property
    def chunk_samples(self) -> int:
        return self._detector.chunk_samples

    @property
    def totals(self) -> ComputeTotals:
        """What was counted so far."""
        with self._lock:
            return self._totals

    def open_stream(self) -> DetectorStream:
        """Return a stream of the detector that counts what it is fed."""
        started = self._clock()
        stream = self._detector.open_stream()
        self._add(1, 0.0, self._clock() - started)
        return _MeteredStream(self, stream, self._clock)

    def close(self) -> None:
        self._detector.close()

    def _add(self, clips: int, heard_s: float, compute_s: float) -> None:
        with self._lock:
            before = self._totals
            self._totals = ComputeTotals(before.clips + clips, before.heard_s + heard_s, before.compute_s + compute_s)


class _MeteredStream:
    def __init__(self, detector: MeteredDetector, stream: DetectorStream, clock: Callable[[], float]) -> None:
        self._detector = detector
        self._stream = stream
        self._clock = clock

    def accept(self, chunk: Samples) -> bool:
        started = self._clock()
        stops = self._stream.accept(chunk)
        self._detector._add(0, len(chunk) / self._detector.sampling_rate, self._clock() - started)
        return stops
