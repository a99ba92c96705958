"""TEN VAD through its package, which brings a native library for each platform.

The licence is Apache-2.0 with conditions of Agora's on top (no use that competes with Agora's offerings; deployment
for one's own applications and their direct end users), so the package is an extra and no default.
"""

from __future__ import annotations

import ctypes
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from bystander.schemas.detector_configs import TenVadConfig
from bystander.schemas.engines import EngineIdentity, Samples
from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.tasks.engines.detector_frames import RunLength, fill_frame
from bystander.tasks.engines.engine_audio import quantise
from bystander.tasks.engines.model_revision import ResolveModel

SAMPLING_RATE = 16000
_LIBRARY = "libc++.so.1"


class TenVadDetector:
    """Stops after some chunks in a row with a high enough probability of speech."""

    def __init__(self, config: TenVadConfig, resolve_model: ResolveModel | None = None) -> None:  # noqa: ARG002 - adapters are built alike
        """Find the package and load its library.

        Raises:
            EngineSetupError: the package or a library that it needs is missing, or it has none for this platform.
        """
        self._config = config
        self._make = _find_package()
        self._version = _read_version()
        self._open()

    @property
    def identity(self) -> EngineIdentity:
        return EngineIdentity(
            "detector",
            "ten_vad",
            "ten-vad",
            self._version,
            (
                ("frames_to_trigger", str(self._config.frames_to_trigger)),
                ("hop_samples", str(self._config.hop_samples)),
                ("threshold", f"{self._config.threshold:g}"),
            ),
        )

    @property
    def sampling_rate(self) -> int:
        return SAMPLING_RATE

    @property
    def chunk_samples(self) -> int:
        return self._config.hop_samples

    def open_stream(self) -> _TenVadStream:
        """Return a new stream with a native detector of its own."""
        return _TenVadStream(self._config, self._open())

    def close(self) -> None:
        """Do nothing: streams free what they hold."""

    def _open(self) -> Any:
        try:
            return self._make(self._config.hop_samples, self._config.threshold)
        except (OSError, NotImplementedError, AssertionError) as exc:
            raise EngineSetupError(f"ten-vad cannot be opened on this platform ({exc})") from exc


class _TenVadStream:
    def __init__(self, config: TenVadConfig, vad: Any) -> None:
        self._config = config
        self._vad = vad
        self._run = RunLength(config.frames_to_trigger)

    def accept(self, chunk: Samples) -> bool:
        frame = quantise(fill_frame(chunk, self._config.hop_samples))
        try:
            probability, _ = self._vad.process(frame)
        except Exception as exc:  # it asserts, and ctypes raises types of its own
            raise EngineError(f"ten-vad failed on a chunk of {len(frame)} samples ({exc})") from exc
        return self._run.add(probability >= self._config.threshold)


def _find_package() -> Any:
    try:
        from ten_vad import TenVad
    except ImportError as exc:
        raise EngineSetupError("the package ten-vad is missing; run: pip install ten-vad") from exc
    if sys.platform == "linux":
        # Its class cannot be taken down once this failed, and says so on stderr; so it is tried beforehand.
        try:
            ctypes.CDLL(_LIBRARY)
        except OSError as exc:
            raise EngineSetupError(
                f"ten-vad needs {_LIBRARY}, which is missing; on Debian and Ubuntu run: apt-get install libc++1"
            ) from exc
    return TenVad


def _read_version() -> str:
    try:
        return version("ten-vad")
    except PackageNotFoundError:
        return "unknown"
