"""A voice bank in memory, as `schemas.voice_bank.VoiceBank`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bystander.schemas.engines import Samples, Voice
from bystander.schemas.errors import InputError
from bystander.schemas.identity import digest_json

RATE = 16000


class MemoryVoiceBank:
    """Voices and their reference clips, and how often each was read."""

    def __init__(self, clips: Mapping[str, Samples], languages: Sequence[str] = ("en",), rate: int = RATE) -> None:
        self._clips = dict(clips)
        self._rate = rate
        self.reads: list[str] = []
        self.voices = tuple(
            Voice(
                id=name,
                language=languages[i % len(languages)],
                gender="male" if i % 2 else "female",
                source="tests",
                licence="CC0-1.0",
            )
            for i, name in enumerate(sorted(clips))
        )

    @property
    def digest(self) -> str:
        return digest_json([[name, self._clips[name].tobytes().hex()] for name in sorted(self._clips)])

    def read_reference(self, voice: str) -> tuple[Samples, int]:
        self.reads.append(voice)
        if voice not in self._clips:
            raise InputError(f"the bank has no voice {voice!r}")
        return self._clips[voice], self._rate


def make_hum(pitch_hz: float, duration_s: float = 1.0, rate: int = RATE) -> Samples:
    """Return a tone with harmonics whose loudness comes and goes."""
    t = np.arange(round(duration_s * rate)) / rate
    wave = sum(np.sin(2 * np.pi * pitch_hz * k * t) / k for k in range(1, 8))
    return np.asarray(0.15 * wave * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * t)), np.float32)


def make_bank(voices: int = 4, languages: Sequence[str] = ("en",)) -> MemoryVoiceBank:
    """Return a bank of hums."""
    return MemoryVoiceBank({f"hum_{i:02d}": make_hum(90 + 17 * i) for i in range(voices)}, languages)
