"""The voice activity detector of WebRTC: Gaussian mixtures over six frequency bands, in fixed point.

Package webrtcvad-wheels (MIT; WebRTC's own code BSD-3-Clause), maintained wheels of py-webrtcvad.
"""

from __future__ import annotations

from typing import Any

from bystander.schemas.detector_configs import WebrtcVadConfig
from bystander.schemas.engines import EngineIdentity, Samples
from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.tasks.engines.detector_frames import RunLength, fill_frame
from bystander.tasks.engines.engine_audio import quantise
from bystander.tasks.engines.model_revision import ResolveModel

SAMPLING_RATE = 16000


class WebrtcVadDetector:
    """Stops after some frames in a row that WebRTC takes for speech."""

    def __init__(self, config: WebrtcVadConfig, resolve_model: ResolveModel | None = None) -> None:  # noqa: ARG002 - adapters are built alike
        """Find the package.

        Raises:
            EngineSetupError: it is missing.
        """
        try:
            import webrtcvad
        except ImportError as exc:
            raise EngineSetupError(
                "the package webrtcvad-wheels is missing; run: pip install webrtcvad-wheels"
            ) from exc
        self._package: Any = webrtcvad
        self._config = config

    @property
    def identity(self) -> EngineIdentity:
        return EngineIdentity(
            "detector",
            "webrtc_vad",
            "webrtcvad",
            str(self._package.__version__),
            (
                ("aggressiveness", str(self._config.aggressiveness)),
                ("frame_ms", str(self._config.frame_ms)),
                ("frames_to_trigger", str(self._config.frames_to_trigger)),
            ),
        )

    @property
    def sampling_rate(self) -> int:
        return SAMPLING_RATE

    @property
    def chunk_samples(self) -> int:
        return self._config.frame_ms * SAMPLING_RATE // 1000

    def open_stream(self) -> _WebrtcStream:
        """Return a new stream with a detector of its own, which adapts to what it hears."""
        return _WebrtcStream(
            self._package.Vad(self._config.aggressiveness), self.chunk_samples, self._config.frames_to_trigger
        )

    def close(self) -> None:
        """Do nothing: streams free what they hold."""


class _WebrtcStream:
    def __init__(self, vad: Any, size: int, needed: int) -> None:
        self._vad = vad
        self._size = size
        self._run = RunLength(needed)

    def accept(self, chunk: Samples) -> bool:
        frame = quantise(fill_frame(chunk, self._size)).tobytes()
        try:
            return self._run.add(bool(self._vad.is_speech(frame, SAMPLING_RATE)))
        except Exception as exc:  # the extension raises a type of its own
            raise EngineError(f"webrtcvad failed on a frame of {self._size} samples ({exc})") from exc
