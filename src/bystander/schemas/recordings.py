"""What a stage asks of an audio decoder: files of a recording in, samples of all its channels out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import EngineIdentity, RowFault

Channels = npt.NDArray[np.float32]
"""Audio of several channels: shape (n, channels), float32, range [-1, 1]."""


@dataclass(frozen=True, slots=True)
class DecodeRequest:
    """Files that make one recording: one with both speakers, or one a speaker, in the order of the channels.

    `paths` are local paths or fsspec URLs; `digests` the SHA-256 of each, as found when the recordings were listed.
    """

    paths: tuple[str, ...]
    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DecodedAudio:
    """All channels of a recording at the rate of its file in Hz. Files of one speaker each are stacked as channels."""

    samples: Channels
    sampling_rate: int


@runtime_checkable
class AudioDecoder(Protocol):
    """Reads audio files of any format. A file that cannot be read is a `RowFault` with a stable reason."""

    @property
    def identity(self) -> EngineIdentity: ...

    def decode(self, requests: Sequence[DecodeRequest]) -> list[DecodedAudio | RowFault]: ...

    def close(self) -> None: ...
