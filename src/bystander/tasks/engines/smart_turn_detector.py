"""Pipecat's smart-turn v3 behind a VAD: stops once a pause follows what sounds like a finished turn.

As in Pipecat's own analyser: from half a second before the speech on, at most the last 8 s, filled up with silence in
front, normalised to mean 0 and variance 1, as Whisper's log-mel features of shape (80, 800). The model gives the
probability that the turn is finished.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.detection import Detector, DetectorStream
from bystander.schemas.detector_configs import SmartTurnConfig
from bystander.schemas.engines import EngineIdentity, Samples
from bystander.schemas.errors import EngineSetupError
from bystander.tasks.engines.model_revision import ResolveModel, read_revision
from bystander.tasks.engines.onnx_session import OnnxModel

SAMPLING_RATE, HEARD_S, BEFORE_SPEECH_S = 16000, 8, 0.5
_HEARD_SAMPLES = HEARD_S * SAMPLING_RATE
_FRAMES = 100 * HEARD_S


class SmartTurnDetector:
    """Stops at a pause after a finished turn."""

    def __init__(self, config: SmartTurnConfig, resolve_model: ResolveModel, vad: Detector) -> None:
        """Find the model, and take the VAD that says what is speech (closed with this); it must hear 16 kHz.

        Raises:
            EngineSetupError: faster-whisper is missing, or the VAD hears another rate.
            ModelStoreError: the model is not in the store (from `resolve_model`).
        """
        if vad.sampling_rate != SAMPLING_RATE:
            raise EngineSetupError(f"smart_turn: its vad hears {vad.sampling_rate} Hz; it must be {SAMPLING_RATE}")
        path = resolve_model(config.model)
        self._config = config
        self._vad = vad
        self._model = OnnxModel(path)
        self._identity = EngineIdentity(
            "detector",
            "smart_turn",
            config.model,
            read_revision(config.model, path),
            (
                ("pause_s", f"{config.pause_s:g}"),
                ("threshold", f"{config.threshold:g}"),
                ("vad", vad.identity.name),
                ("vad_digest", vad.identity.digest()),
            ),
        )

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    @property
    def sampling_rate(self) -> int:
        return SAMPLING_RATE

    @property
    def chunk_samples(self) -> int:
        return self._vad.chunk_samples

    def open_stream(self) -> DetectorStream:
        """Return a new stream with one of the VAD's."""
        return _SmartTurnStream(self._config, self._model, self._vad.open_stream())

    def close(self) -> None:
        self._vad.close()
        self._model.close()


class _SmartTurnStream:
    def __init__(self, config: SmartTurnConfig, model: OnnxModel, vad: DetectorStream) -> None:
        self._config = config
        self._model = model
        self._vad = vad
        self._heard = np.zeros(0, np.float32)
        self._spoke = False
        self._silent_samples = 0
        self._finished: bool | None = None  # not asked since the last speech

    def accept(self, chunk: Samples) -> bool:
        speech = self._vad.accept(chunk)
        self._spoke = self._spoke or speech
        kept = _HEARD_SAMPLES if self._spoke else int(BEFORE_SPEECH_S * SAMPLING_RATE)
        self._heard = np.concatenate([self._heard, chunk])[-kept:]
        if speech or not self._spoke:
            self._silent_samples, self._finished = 0, None
            return False
        self._silent_samples += len(chunk)
        if self._finished is None and self._silent_samples >= self._config.pause_s * SAMPLING_RATE:
            (probability,) = self._model.run({"input_features": compute_features(self._heard)[np.newaxis]})
            self._finished = float(np.ravel(probability)[0]) > self._config.threshold
        return bool(self._finished)


def compute_features(heard: Samples) -> npt.NDArray[np.float32]:
    """Return what the model is given of at most 8 s of 16 kHz audio: log-mel features, shape (80, 800)."""
    audio = np.zeros(_HEARD_SAMPLES, np.float32)
    audio[_HEARD_SAMPLES - len(heard) :] = heard
    audio = (audio - audio.mean()) / np.sqrt(audio.var() + np.float32(1e-7))
    features: npt.NDArray[np.float32] = _open_extractor()(audio, padding=0)[:, :_FRAMES]
    return features


@cache
def _open_extractor() -> Any:
    try:
        from faster_whisper.feature_extractor import FeatureExtractor
    except ImportError as exc:
        raise EngineSetupError("the package faster-whisper is missing; run: pip install faster-whisper") from exc
    return FeatureExtractor(feature_size=80, chunk_length=HEARD_S)
