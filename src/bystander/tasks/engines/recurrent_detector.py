"""A small trained recurrent network as a detector: features in numpy or by a recogniser, onnxruntime, no torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from bystander.schemas.detector_configs import RecurrentDetectorConfig
from bystander.schemas.engines import EngineIdentity, Samples
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.train_sid_config import RecurrentFolder
from bystander.tasks.engines.log_mel_steps import SAMPLING_RATE, STEP_FRAMES
from bystander.tasks.engines.model_revision import ResolveModel, read_revision
from bystander.tasks.engines.onnx_session import OnnxModel
from bystander.tasks.engines.step_features import LogMelFeatures, RecogniserFeatures, StepFeatures

CONFIG_NAME, GRAPH_NAME = "config.json", "detector.onnx"


class RecurrentDetector:
    """Stops at a chunk whose last step makes an interruption likely enough."""

    def __init__(self, config: RecurrentDetectorConfig, resolve_model: ResolveModel) -> None:
        """Read what the folder says of itself; its network is opened by the first chunk.

        Raises:
            EngineSetupError: there is no such folder, it holds no recurrent detector, or the recogniser that it hears
                through is not the one that it was trained on.
            ModelStoreError: that recogniser is not in the store (from `resolve_model`).
        """
        named = Path(config.model).expanduser()
        if not named.is_dir():
            raise EngineSetupError(
                f"{config.model}: there is no such folder; name one that `bystander train sid` wrote"
            )
        folder = find_recurrent_folder(named)
        self.settings = read_recurrent_folder(folder)
        self.threshold = self.settings.threshold if config.threshold is None else config.threshold
        self._model = OnnxModel(folder / GRAPH_NAME)
        self._features = _open_features(folder, self.settings, resolve_model)
        self._identity = EngineIdentity(
            "detector",
            "recurrent",
            named.resolve().name,
            read_revision(str(named), folder),
            (("threshold", f"{self.threshold:g}"),),
        )

    @property
    def identity(self) -> EngineIdentity:
        """The bytes of the folder's files are its revision."""
        return self._identity

    @property
    def sampling_rate(self) -> int:
        return SAMPLING_RATE

    @property
    def chunk_samples(self) -> int:
        return round(self.settings.chunk_s * SAMPLING_RATE)

    def open_stream(self) -> RecurrentStream:
        """Return a new stream, which has heard nothing."""
        return RecurrentStream(self.settings, self.threshold, self._model, self._features)

    def close(self) -> None:
        self._model.close()
        self._features.close()


class RecurrentStream:
    """One clip."""

    def __init__(self, settings: RecurrentFolder, threshold: float, model: OnnxModel, features: StepFeatures) -> None:
        self._threshold = threshold
        self._model = model
        self._features = features.open_stream()
        self._context = np.full((settings.context_steps * STEP_FRAMES, features.bands), features.empty, np.float32)
        self._states = [
            np.zeros((1, 1, settings.hidden), np.float32) for _ in range(settings.members * settings.layers)
        ]
        self._last = 0.0

    def accept(self, chunk: Samples) -> bool:
        """Hear one more chunk, and say whether an interruption is likely enough at its end."""
        return self.measure(chunk) >= self._threshold

    def measure(self, chunk: Samples) -> float:
        """Hear one more chunk, and return how likely an interruption is after the last whole step, in [0, 1]."""
        probabilities = self.measure_steps(chunk)
        if len(probabilities):
            self._last = float(probabilities[-1])
        return self._last

    def measure_steps(self, samples: Samples) -> npt.NDArray[np.float32]:
        """Hear more, and return the probability at each step that it completes, shape (n,)."""
        steps = self._features.accept(samples)
        if not len(steps):
            return np.zeros(0, np.float32)
        frames = np.concatenate([self._context, steps.reshape(-1, steps.shape[2])])
        inputs = {"frames": np.ascontiguousarray(frames.T)[np.newaxis]}
        inputs |= {f"state{number}": state for number, state in enumerate(self._states)}
        probabilities, *self._states = self._model.run(inputs)
        self._context = frames[len(frames) - len(self._context) :]
        heard: npt.NDArray[np.float32] = probabilities
        return heard


def _open_features(folder: Path, settings: RecurrentFolder, resolve_model: ResolveModel) -> StepFeatures:
    if settings.features == "log_mel":
        return LogMelFeatures(settings.mel_bands)
    name = settings.recogniser or ""
    path = resolve_model(name)
    if settings.recogniser_revision not in (None, read_revision(name, path)):
        raise EngineSetupError(
            f"{folder}/{CONFIG_NAME}: was trained on another revision of the recogniser {name} than the one in {path}; "
            "fetch that one, or train again"
        )
    return RecogniserFeatures(path, settings.mel_bands)


def find_settings(config: RecurrentDetectorConfig) -> RecurrentFolder:
    """Return what the folder that a configuration names says of its detector.

    Raises:
        EngineSetupError: there is no such detector.
    """
    return read_recurrent_folder(find_recurrent_folder(Path(config.model).expanduser()))


def find_recurrent_folder(path: Path) -> Path:
    """Return the detector's folder: the one named, or `model` of the run's folder that was named."""
    inner = path / "model"
    return inner if not (path / CONFIG_NAME).is_file() and (inner / CONFIG_NAME).is_file() else path


def read_recurrent_folder(folder: Path) -> RecurrentFolder:
    """Return what a detector's folder says of it.

    Raises:
        EngineSetupError: there is no such detector in it.
    """
    try:
        settings = RecurrentFolder.model_validate_json((folder / CONFIG_NAME).read_bytes())
    except OSError as exc:
        raise EngineSetupError(
            f"{folder}: no {CONFIG_NAME} of a trained detector; name a folder that `bystander train sid` wrote"
        ) from exc
    except ValidationError as exc:
        raise EngineSetupError(f"{folder}/{CONFIG_NAME}: is none of a recurrent detector; name another folder") from exc
    if not (folder / GRAPH_NAME).is_file():
        raise EngineSetupError(f"{folder}: {GRAPH_NAME} is missing; copy the whole folder, or train again")
    return settings
