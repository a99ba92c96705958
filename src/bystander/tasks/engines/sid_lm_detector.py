"""A trained `sid_lm` model as a detector: it hears growing prefixes, in fixed chunks (SID paper, IV-C).

At each chunk the model is given all that was heard so far, and says how likely it is that the user has broken in. The
encoder looks both ways within its windows, so nothing of the chunk before can be kept: a clip of n chunks costs the
square of n, and memory for one pass over `max_context_s` (of the model's folder), beyond which only the end is heard.
The paper's K = 3 chunks in a row are `k3:sid_lm:...`.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from bystander.schemas.detector_configs import SidLmDetectorConfig
from bystander.schemas.engines import EngineIdentity, Samples
from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.tasks.engines.model_revision import ResolveModel, read_revision
from bystander.tasks.engines.package_check import require_packages
from bystander.tasks.engines.sid_lm_folder import (
    PACKAGES,
    SAMPLING_RATE,
    extract_features,
    find_model_folder,
    open_sid_lm,
    read_sid_lm_config,
    stack_features,
)


class SidLmDetector:
    """Stops at a chunk at which the model finds an interruption likely enough."""

    def __init__(self, config: SidLmDetectorConfig, resolve_model: ResolveModel) -> None:
        """Look for the packages and read what the folder says; the model is loaded by the first chunk.

        Raises:
            EngineSetupError: a package is missing, or the folder is none of a trained detector.
            ModelStoreError: there is no such folder (from `resolve_model`).
        """
        require_packages(PACKAGES, "sid_lm", "train")
        named = resolve_model(config.model)
        self._folder = find_model_folder(named)
        settings = read_sid_lm_config(self._folder)
        self._config = config
        self._threshold = settings.threshold if config.threshold is None else config.threshold
        self._chunk_samples = max(1, round(settings.chunk_s * SAMPLING_RATE))
        self._identity = EngineIdentity(
            "detector",
            "sid_lm",
            named.resolve().name,
            read_revision(config.model, self._folder),
            (("dtype", config.dtype), ("threshold", f"{self._threshold:g}")),
        )
        self._lock = threading.Lock()
        self._opened: Any = None
        self._closed = False

    @property
    def identity(self) -> EngineIdentity:
        """The bytes of the folder's files are its revision."""
        return self._identity

    @property
    def sampling_rate(self) -> int:
        return SAMPLING_RATE

    @property
    def chunk_samples(self) -> int:
        return self._chunk_samples

    @property
    def threshold(self) -> float:
        """Least probability at which a chunk is positive."""
        return self._threshold

    def open_stream(self) -> SidLmStream:
        """Return a new stream, which has heard nothing."""
        return SidLmStream(self)

    def measure(self, heard: Samples) -> float:
        """Return how likely an interruption is after what was heard, in [0, 1].

        Raises:
            EngineSetupError: the folder is damaged, or the detector was closed.
            EngineError: the model fails, for want of memory for one thing.
        """
        opened = self._open()
        import torch

        features = extract_features(opened.extractor, heard, opened.folder.max_context_s)
        stacked, frames = stack_features([features])
        weight = opened.model.head.weight
        try:
            with torch.inference_mode():
                logits = opened.model(stacked.to(weight.device, weight.dtype), frames.to(weight.device))["logits"]
                return float(torch.sigmoid(logits.float())[0])
        except RuntimeError as exc:
            raise EngineError(
                f"sid_lm {self._folder}: failed on {len(heard) / SAMPLING_RATE:.1f} s of audio ({exc}); if memory ran "
                "out, lower max_context_s in its config.json"
            ) from exc

    def close(self) -> None:
        """Let the model go; a second call does nothing."""
        with self._lock:
            self._closed = True
            self._opened = None

    def _open(self) -> Any:
        with self._lock:
            if self._closed:
                raise EngineSetupError(f"sid_lm {self._folder}: was closed and cannot be asked again")
            if self._opened is None:
                self._opened = open_sid_lm(self._folder, _choose_device(self._config.device), self._config.dtype)
            return self._opened


class SidLmStream:
    """One clip."""

    def __init__(self, detector: SidLmDetector) -> None:
        self._detector = detector
        self._heard = np.zeros(0, np.float32)

    def accept(self, chunk: Samples) -> bool:
        """Hear one more chunk, and say whether an interruption is likely enough after all that was heard."""
        return self.measure(chunk) >= self._detector.threshold

    def measure(self, chunk: Samples) -> float:
        """Hear one more chunk, and return how likely an interruption is, in [0, 1]."""
        self._heard = np.concatenate([self._heard, chunk])
        return self._detector.measure(self._heard)


def _choose_device(device: str) -> str:
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise EngineSetupError("sid_lm: device cuda: torch sees no such device; leave `device` at auto")
    return device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
