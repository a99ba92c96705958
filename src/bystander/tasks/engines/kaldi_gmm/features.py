"""What an alignment model sees of a clip: mel cepstra with their slopes, and which frames are loud enough."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import Samples
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.identity import make_rng
from bystander.tasks.engines.engine_audio import convert_rate

SAMPLING_RATE = 16000
FRAME_SHIFT_S = 0.01
_FRAME = int(FRAME_SHIFT_S * SAMPLING_RATE)
_CEPSTRA = 13
_MEL_BANDS = 23
_NOISE_SECONDS = 8
_ACTIVE_RANGE_DB = 30.0
"""Frames this far below the loud ones (their 95th percentile) are not counted as speech."""
_SOUNDING_RANGE_DB = 36.0
"""The same for the differenced signal, below its loudest frame: `tasks.audio.speech_edges` measures onsets so."""

Features = npt.NDArray[np.float32]
"""Shape (frames, 39), float32; frame i is centred on (i + 1/2) * 10 ms."""


@dataclass(frozen=True, slots=True)
class FeatureSpec:
    """Settings of the features; a model stores those that it was trained with.

    The band ends below 4 kHz so that telephone speech looks like any other. `noise_dbfs` is the level of a constant
    noise under speech of 0 dB, so that digital silence and a quiet room look alike.
    """

    low_hz: float = 60.0
    high_hz: float = 3800.0
    noise_db: float = -45.0


@dataclass(frozen=True, slots=True)
class ClipFeatures:
    """Features of a clip, and what its level tells of each frame, shape (frames,), bool.

    `active` frames are loud enough to be speech; `sounding` ones hold more than the background of a clean clip, weak
    fricatives included (all of them where noise is loud).
    """

    values: Features
    active: npt.NDArray[np.bool_]
    sounding: npt.NDArray[np.bool_]


def compute_features(samples: Samples, sampling_rate: int, spec: FeatureSpec) -> ClipFeatures | None:
    """Return the features of a mono clip in [-1, 1], or None where it is shorter than a frame or without any sound.

    The level is set so that active frames have an RMS of 1; the mean of the cepstra over active frames is taken out,
    so that pauses of whatever length change nothing about the speech beside them.
    """
    audio = convert_rate(samples, sampling_rate, SAMPLING_RATE).astype(np.float64)
    frames = len(audio) // _FRAME
    if not frames:
        return None
    audio = audio - audio.mean()
    power = np.mean(audio[: frames * _FRAME].reshape(frames, _FRAME) ** 2, axis=1)
    loud = float(np.percentile(power, 95))
    if loud <= 0:
        return None
    # A burst or a word in a long silence: the percentile then says nothing.
    loud = max(loud, float(power.max()) * 10 ** (-_ACTIVE_RANGE_DB / 20))
    active = power > loud * 10 ** (-_ACTIVE_RANGE_DB / 10)
    # A first difference raises fricatives, whose onset is weak, against vowels.
    change = np.mean(np.diff(audio, prepend=audio[0])[: frames * _FRAME].reshape(frames, _FRAME) ** 2, axis=1)
    sounding = change > change.max() * 10 ** (-_SOUNDING_RANGE_DB / 10)
    audio = audio / np.sqrt(power[active].mean())
    noise = _make_noise()
    repeats = -(-len(audio) // len(noise))
    audio = audio + np.tile(noise, repeats)[: len(audio)] * 10 ** (spec.noise_db / 20)
    cepstra = _compute_cepstra(audio * 3000.0, spec)
    active, sounding = (np.pad(mask, (0, max(0, len(cepstra) - frames)))[: len(cepstra)] for mask in (active, sounding))
    cepstra = cepstra - cepstra[active].mean(axis=0)
    slopes = _differentiate(cepstra)
    values = np.hstack([cepstra, slopes, _differentiate(slopes)])
    return ClipFeatures(np.ascontiguousarray(values, np.float32), active, sounding)


@cache
def _make_noise() -> npt.NDArray[np.float64]:
    return make_rng(0, "", "kaldi_gmm_noise").standard_normal(_NOISE_SECONDS * SAMPLING_RATE)


def _compute_cepstra(audio: npt.NDArray[np.float64], spec: FeatureSpec) -> npt.NDArray[np.float64]:
    fbank: Any = _load_fbank()
    options = fbank.MfccOptions()
    options.frame_opts.dither = 0
    options.frame_opts.samp_freq = SAMPLING_RATE
    options.frame_opts.snip_edges = False
    options.mel_opts.num_bins = _MEL_BANDS
    options.mel_opts.low_freq = spec.low_hz
    options.mel_opts.high_freq = spec.high_hz
    options.num_ceps = _CEPSTRA
    options.use_energy = False
    computer = fbank.OnlineMfcc(options)
    computer.accept_waveform(SAMPLING_RATE, audio.astype(np.float32).tolist())
    computer.input_finished()
    return np.stack([computer.get_frame(i) for i in range(computer.num_frames_ready)]).astype(np.float64)


def _differentiate(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the slope over five frames (the regression formula of HTK and Kaldi)."""
    p = np.pad(values, ((2, 2), (0, 0)), mode="edge")
    slope: npt.NDArray[np.float64] = (2 * p[4:] + p[3:-1] - p[1:-3] - 2 * p[:-4]) / 10
    return slope


def _load_fbank() -> Any:
    try:
        import kaldi_native_fbank
    except ImportError as exc:
        raise EngineSetupError(
            "the package kaldi_native_fbank is missing; run: pip install kaldi_native_fbank"
        ) from exc
    return kaldi_native_fbank
