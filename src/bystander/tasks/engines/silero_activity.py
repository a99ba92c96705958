"""Silero VAD over whole channels, by the copy that ships inside faster-whisper (its code and weights are MIT)."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bystander.schemas.activity import ActivityRequest, SpeechSpans
from bystander.schemas.engines import EngineIdentity, RowFault, Samples
from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.schemas.sid_engine_configs import SileroVadConfig
from bystander.tasks.engines.engine_audio import convert_rate

SAMPLING_RATE = 16000
_MODEL = "silero_vad_v6.onnx"
_LOUD_QUANTILE = 0.999
_LOUD_TARGET = 0.3
_MAX_GAIN = 30.0
"""The model hears level: channels recorded softly are turned up (their loudest 0.1 % to `_LOUD_TARGET`), by 30 dB at
most, so that a silent channel stays one."""


class SileroActivityDetector:
    """Finds speech with Silero VAD; for any number of threads."""

    def __init__(self, config: SileroVadConfig) -> None:
        """Find the model and read its digest; it is opened by the first call.

        Raises:
            EngineSetupError: faster-whisper or the model in it is missing.
        """
        try:
            from faster_whisper import vad
            from faster_whisper.utils import get_assets_path
        except ImportError as exc:
            raise EngineSetupError("the package faster-whisper is missing; run: pip install faster-whisper") from exc
        path = Path(get_assets_path()) / _MODEL
        if not path.is_file():
            raise EngineSetupError(f"faster-whisper has no {_MODEL}; install faster-whisper 1.2 or newer")
        self._vad: Any = vad
        self._lock = threading.Lock()
        self._options = vad.VadOptions(
            threshold=config.threshold,
            min_silence_duration_ms=round(1000 * config.min_pause_s),
            min_speech_duration_ms=0,
            speech_pad_ms=0,
        )
        self._identity = EngineIdentity(
            kind="vad",
            name="silero",
            model=_MODEL,
            revision=hashlib.sha256(path.read_bytes()).hexdigest(),
            settings=(
                ("max_gain", f"{_MAX_GAIN:g}"),
                ("min_pause_s", f"{config.min_pause_s:g}"),
                ("threshold", f"{config.threshold:g}"),
            ),
        )

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    def find_speech(self, requests: Sequence[ActivityRequest]) -> list[SpeechSpans | RowFault]:
        """Find speech; starts and ends are those of stretches of 32 ms.

        Row faults: `empty_audio` (no samples), `non_finite_audio`.

        Raises:
            EngineError: the model failed.
        """
        return [self._listen(request) for request in requests]

    def close(self) -> None:
        """Nothing to let go of: the model is shared by all of the process."""

    def _listen(self, request: ActivityRequest) -> SpeechSpans | RowFault:
        if not len(request.samples):
            return RowFault("empty_audio", "the channel has no samples")
        if not np.isfinite(request.samples).all():
            return RowFault("non_finite_audio", "the channel has samples that are no numbers")
        audio = _turn_up(convert_rate(request.samples, request.sampling_rate, SAMPLING_RATE))
        with self._lock:  # the package opens its model in a cache that is not guarded
            try:
                self._vad.get_vad_model()
            except Exception as exc:  # onnxruntime raises types of its own for each kind of damage
                raise EngineSetupError(f"{_MODEL}: cannot be opened ({exc})") from exc
        try:
            found = self._vad.get_speech_timestamps(audio, self._options)
        except Exception as exc:  # see above
            raise EngineError(f"Silero VAD failed on {len(audio) / SAMPLING_RATE:.1f} s of audio ({exc})") from exc
        spans = np.array([[span["start"], span["end"]] for span in found], np.float64).reshape(-1, 2)
        return np.minimum(spans / SAMPLING_RATE, len(request.samples) / request.sampling_rate)


def _turn_up(samples: Samples) -> Samples:
    loud = float(np.quantile(np.abs(samples), _LOUD_QUANTILE)) if len(samples) else 0.0
    gain = min(_MAX_GAIN, _LOUD_TARGET / loud) if loud > 0 else 1.0
    return samples * np.float32(gain) if gain > 1 else samples
