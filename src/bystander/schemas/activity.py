"""What a stage asks of a voice activity detector: where there is speech in a channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import EngineIdentity, RowFault, Samples

SpeechSpans = npt.NDArray[np.float64]
"""Starts and ends of speech in seconds: shape (spans, 2), in order, apart from each other, inside the audio."""


@dataclass(frozen=True, slots=True)
class ActivityRequest:
    """One channel, of any length and rate."""

    samples: Samples
    sampling_rate: int


@runtime_checkable
class VoiceActivityDetector(Protocol):
    """Finds speech in whole recordings. (What hears a clip chunk by chunk and is evaluated is a `Detector`.)"""

    @property
    def identity(self) -> EngineIdentity: ...

    def find_speech(self, requests: Sequence[ActivityRequest]) -> list[SpeechSpans | RowFault]: ...

    def close(self) -> None: ...
