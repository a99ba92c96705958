"""Silero VAD on onnxruntime, without torch: the authors' ONNX file with its state carried from chunk to chunk.

The model takes 512 samples of 16 kHz audio after the 64 before them, and gives the probability of speech. A chunk at
or above the threshold triggers, as in the `VADIterator` of the authors' package.
"""

from __future__ import annotations

import numpy as np

from bystander.schemas.detector_configs import SileroVadConfig
from bystander.schemas.engines import EngineIdentity, Samples
from bystander.tasks.engines.detector_frames import RunLength, fill_frame
from bystander.tasks.engines.model_revision import ResolveModel, read_revision
from bystander.tasks.engines.onnx_session import OnnxModel

SAMPLING_RATE, CHUNK_SAMPLES, CONTEXT_SAMPLES = 16000, 512, 64
_STATE_SHAPE = (2, 1, 128)
_RATE = np.array(SAMPLING_RATE, np.int64)


class SileroVadDetector:
    """Stops after some chunks in a row with a high enough probability of speech."""

    def __init__(self, config: SileroVadConfig, resolve_model: ResolveModel) -> None:
        """Find the model; it is opened by the first chunk.

        Raises:
            ModelStoreError: the model is not in the store (from `resolve_model`).
        """
        path = resolve_model(config.model)
        self._config = config
        self._model = OnnxModel(path)
        self._identity = EngineIdentity(
            "detector",
            "silero_vad",
            config.model,
            read_revision(config.model, path),
            (("frames_to_trigger", str(config.frames_to_trigger)), ("threshold", f"{config.threshold:g}")),
        )

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    @property
    def sampling_rate(self) -> int:
        return SAMPLING_RATE

    @property
    def chunk_samples(self) -> int:
        return CHUNK_SAMPLES

    def open_stream(self) -> SileroVadStream:
        """Return a new stream with a state of its own."""
        return SileroVadStream(self._config, self._model)

    def close(self) -> None:
        self._model.close()


class SileroVadStream:
    """One clip."""

    def __init__(self, config: SileroVadConfig, model: OnnxModel) -> None:
        self._threshold = config.threshold
        self._run = RunLength(config.frames_to_trigger)
        self._model = model
        self._state = np.zeros(_STATE_SHAPE, np.float32)
        self._context = np.zeros(CONTEXT_SAMPLES, np.float32)

    def accept(self, chunk: Samples) -> bool:
        """Hear one chunk, and say whether it ends a long enough run of speech."""
        return self._run.add(self.measure(chunk) >= self._threshold)

    def measure(self, chunk: Samples) -> float:
        """Hear one chunk, and return the probability that it holds speech."""
        heard = np.concatenate([self._context, fill_frame(chunk, CHUNK_SAMPLES)])
        probability, self._state = self._model.run({"input": heard[np.newaxis], "state": self._state, "sr": _RATE})
        self._context = heard[-CONTEXT_SAMPLES:]
        return float(probability[0, 0])
