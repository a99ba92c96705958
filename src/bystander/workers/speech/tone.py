"""A model of no model: tones whose pitch is the voice's and whose length is the text's. For tests and dry runs.

It is as exact as a real one about seeds, voices, languages and faults, and needs numpy alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .model import RequestFault, check_text, find_language, read_numbers
from .protocol import Hello, Samples, SpeakRequest

SAMPLING_RATE = 24000
CHARACTER_S = 0.06
LANGUAGES = ("en", "zh")
_DEFAULTS = {"max_characters": 600.0, "temperature": 0.8}
_MIN_REFERENCE_S = 0.1
_LEVEL, _NOISE_LEVEL = 0.3, 0.02


def describe() -> Hello:
    """Return what there is to say of the model."""
    return Hello("tone", "tone", "1", SAMPLING_RATE, LANGUAGES, {"watermark": "none"})


class ToneModel:
    """Speaks in tones. A voice is the frequency at which its reference crosses zero."""

    def describe(self) -> Hello:
        return describe()

    def read_settings(self, raw: Mapping[str, Any]) -> dict[str, float]:
        return read_numbers(raw, _DEFAULTS)

    def prepare_voice(self, samples: Samples, sampling_rate: int) -> Any:
        if len(samples) < _MIN_REFERENCE_S * sampling_rate:
            raise RequestFault("unusable_reference", f"{len(samples) / sampling_rate:.2f} s of speech are too short")
        crossings = np.count_nonzero(np.diff(np.signbit(samples)))
        pitch = float(np.clip(crossings * sampling_rate / (2 * len(samples)), 80, 400))
        return np.array([pitch, zlib.crc32(samples.tobytes())], np.float64)

    def save_voice(self, voice: Any, path: Path) -> None:
        path.write_bytes(voice.astype("<f8").tobytes())

    def load_voice(self, path: Path) -> Any:
        voice = np.frombuffer(path.read_bytes(), "<f8").astype(np.float64)
        if voice.shape != (2,):
            raise ValueError(f"{path}: no voice of the tone model")
        return voice

    def speak(self, request: SpeakRequest, voice: Any, settings: dict[str, float]) -> Samples:
        check_text(request.text, int(settings["max_characters"]))
        language = find_language(request.language, LANGUAGES)
        rng = np.random.Generator(np.random.PCG64([request.seed, int(voice[1]), zlib.crc32(language.encode())]))
        length = round(CHARACTER_S * SAMPLING_RATE * len(request.text.strip()))
        steps = np.repeat([ord(c) % 12 for c in request.text.strip()], round(CHARACTER_S * SAMPLING_RATE))[:length]
        phase = 2 * np.pi * np.cumsum(voice[0] * 2 ** (steps / 12)) / SAMPLING_RATE
        noise = settings["temperature"] * _NOISE_LEVEL * rng.standard_normal(len(phase))
        return np.asarray(_LEVEL * np.sin(phase) + np.clip(noise, -0.2, 0.2), np.float32)

    def measure_device_memory(self) -> float:
        return 0.0
