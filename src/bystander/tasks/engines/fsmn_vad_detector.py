"""FunASR's FSMN-VAD as a stream, on onnxruntime and kaldi-native-fbank.

The package funasr-onnx asks for numpy below 1.27 and opens every model of FunASR on import, so its model is run here
directly. It is the same computation: 80 log-mel bands every 10 ms (25 ms Hamming windows, no dither), each frame
spliced with the two before and the two after it, normalised by `am.mvn`, and the network's memory carried from chunk to
chunk. A frame is speech where its probability exceeds that of silence by a threshold; a start is found where enough of
the last frames are. Frames and starts equal those of funasr-onnx 0.4.3's `Fsmn_vad_online` (`benchmarks/README.md`).
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from bystander.schemas.detector_configs import FsmnVadConfig
from bystander.schemas.engines import EngineIdentity, Samples
from bystander.schemas.errors import EngineSetupError
from bystander.tasks.engines.model_revision import ResolveModel, read_revision
from bystander.tasks.engines.onnx_session import OnnxModel

SAMPLING_RATE = 16000
FRAME_MS, WINDOW_MS, MEL_BANDS, SPLICED = 10, 25, 80, 5
_FULL_SCALE = np.float32(32768)
Features = npt.NDArray[np.float32]
Vector = npt.NDArray[np.float64]


class FsmnVadDetector:
    """Stops at a start of speech."""

    def __init__(self, config: FsmnVadConfig, resolve_model: ResolveModel) -> None:
        """Find the model; its network is opened by the first chunk.

        Raises:
            EngineSetupError: kaldi-native-fbank is missing, or the folder holds no FSMN-VAD.
            ModelStoreError: the model is not in the store (from `resolve_model`).
        """
        folder = resolve_model(config.model)
        self._config = config
        self._shape = _read_shape(folder / "config.yaml")
        self._shift, self._scale = _read_normalisation(folder / "am.mvn")
        self._network = OnnxModel(folder / "model.onnx")
        self._kaldi = _find_package()
        self._identity = EngineIdentity(
            "detector",
            "fsmn_vad",
            config.model,
            read_revision(config.model, folder),
            tuple(
                (name, f"{value:g}") for name, value in sorted(config.model_dump(exclude={"engine", "model"}).items())
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
        return self._config.chunk_ms * SAMPLING_RATE // 1000

    def open_stream(self) -> FsmnVadStream:
        """Return a new stream with a memory of its own."""
        return FsmnVadStream(self)

    def close(self) -> None:
        self._network.close()


class FsmnVadStream:
    """One clip."""

    def __init__(self, detector: FsmnVadDetector) -> None:
        config = detector._config
        self._detector = detector
        self._filters = detector._kaldi.OnlineFbank(_choose_options(detector._kaldi))
        self._frames: list[Features] = []  # not yet spliced: the last two of the past, and what waits for its future
        self._taken = 0
        self._memory = {f"in_cache{i}": np.zeros(detector._shape[1:], np.float32) for i in range(detector._shape[0])}
        self._window: deque[bool] = deque(maxlen=config.window_ms // FRAME_MS)
        self._needed = config.speech_ms // FRAME_MS

    def accept(self, chunk: Samples) -> bool:
        """Hear one chunk, and say whether a frame in it ends a window with enough speech."""
        started = False
        for silence in self.measure(chunk):
            self._window.append(bool(1 - silence >= silence + self._detector._config.speech_noise_threshold))
            started = started or sum(self._window) >= self._needed
        return started

    def measure(self, chunk: Samples) -> npt.NDArray[np.float32]:
        """Hear one chunk, and return the probability of silence of each frame that became known, shape (n,)."""
        self._filters.accept_waveform(SAMPLING_RATE, (chunk * _FULL_SCALE).tolist())
        features = self._splice()
        if not len(features):
            return np.zeros(0, np.float32)
        features = ((features + self._detector._shift) * self._detector._scale).astype(np.float32)
        scores, *memory = self._detector._network.run({"speech": features[np.newaxis], **self._memory})
        self._memory = dict(zip(self._memory, memory, strict=True))
        silence: npt.NDArray[np.float32] = scores[0, :, 0]
        return silence

    def _splice(self) -> Features:
        """Return the new frames whose two followers are there, each with its neighbours, shape (n, 400)."""
        ready = self._filters.num_frames_ready
        fresh = [np.asarray(self._filters.get_frame(i), np.float32) for i in range(self._taken, ready)]
        self._taken = ready
        if not fresh:
            return np.zeros((0, MEL_BANDS * SPLICED), np.float32)
        self._frames += fresh if self._frames else [fresh[0]] * (SPLICED // 2) + fresh
        whole = len(self._frames) - SPLICED + 1
        if whole <= 0:
            return np.zeros((0, MEL_BANDS * SPLICED), np.float32)
        spliced = np.stack([np.concatenate(self._frames[i : i + SPLICED]) for i in range(whole)])
        del self._frames[:whole]
        return spliced


def _find_package() -> Any:
    try:
        import kaldi_native_fbank
    except ImportError as exc:
        raise EngineSetupError(
            "the package kaldi-native-fbank is missing; run: pip install kaldi-native-fbank"
        ) from exc
    return kaldi_native_fbank


def _choose_options(kaldi: Any) -> Any:
    options = kaldi.FbankOptions()
    options.frame_opts.samp_freq = SAMPLING_RATE
    options.frame_opts.dither = 0.0
    options.frame_opts.window_type = "hamming"
    options.frame_opts.frame_shift_ms = float(FRAME_MS)
    options.frame_opts.frame_length_ms = float(WINDOW_MS)
    options.frame_opts.snip_edges = True
    options.mel_opts.num_bins = MEL_BANDS
    options.energy_floor = 0
    return options


def _read_shape(path: Path) -> tuple[int, int, int, int, int]:
    """Return how many memories the network has, and the shape of each: (1, projection, order - 1, 1)."""
    try:
        encoder = yaml.safe_load(path.read_text("utf-8"))["encoder_conf"]
        return int(encoder["fsmn_layers"]), 1, int(encoder["proj_dim"]), int(encoder["lorder"]) - 1, 1
    except OSError as exc:
        raise EngineSetupError(f"{path}: cannot be read ({exc.strerror}); the model is a folder of FunASR's") from exc
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError, ValueError) as exc:
        raise EngineSetupError(f"{path}: is no configuration of an FSMN-VAD") from exc


def _read_normalisation(path: Path) -> tuple[Vector, Vector]:
    """Return what is added to the spliced features, and what they are then multiplied by; shape (400,) each.

    The file is a Kaldi network of text: the vectors stand on the lines after `<AddShift>` and `<Rescale>`, in brackets.
    """
    vectors: dict[str, Vector] = {}
    try:
        lines = path.read_text("utf-8").splitlines()
        for head, line in pairwise(lines):
            name = head.split(maxsplit=1)[0] if head.split() else ""
            if name in ("<AddShift>", "<Rescale>"):
                vectors[name] = np.array(line.partition("[")[2].partition("]")[0].split(), np.float64)
    except OSError as exc:
        raise EngineSetupError(f"{path}: cannot be read ({exc.strerror}); the model is a folder of FunASR's") from exc
    except (UnicodeDecodeError, ValueError) as exc:
        raise EngineSetupError(f"{path}: is no normalisation of FunASR's") from exc
    if {name: len(vector) for name, vector in vectors.items()} != {
        "<AddShift>": MEL_BANDS * SPLICED,
        "<Rescale>": MEL_BANDS * SPLICED,
    }:
        raise EngineSetupError(f"{path}: does not hold {MEL_BANDS * SPLICED} shifts and as many factors")
    return vectors["<AddShift>"], vectors["<Rescale>"]
