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
    """All channels of a recording at the rate of its file in Hz (rates that a decoder finds too high are lowered).

    Files of one speaker each are stacked as channels, the shorter one with silence at its end.
    """

    samples: Channels
    sampling_rate: int


@runtime_checkable
class AudioDecoder(Protocol):
    """Reads audio files of any format. A file that cannot be read is a `RowFault` with a stable reason."""

    @property
    def identity(self) -> EngineIdentity: ...

    def decode(self, requests: Sequence[DecodeRequest]) -> list[DecodedAudio | RowFault]: ...

    def close(self) -> None: ...


RECORDING_REASONS = frozenset(
    {
        "manifest_row_invalid",  # a row of the manifest cannot be read, or lacks what it must have
        "audio_missing",  # the file is not there
        "audio_unreadable",  # it is there, but the file system refuses it
        "duplicate_recording",  # the same audio as an earlier recording
        "transcript_missing",  # the manifest names a transcript that is not there
        "transcript_ambiguous",  # several transcripts fit
        "transcript_unreadable",  # not text, or of a format that cannot be told
        "transcript_invalid",  # a line or field of it is wrong
        "transcript_empty",  # there is a transcript, and nothing is said in it
        "too_many_speakers",  # more than the two that the channels hold
        "speakers_unclear",  # it cannot be told which channel a speaker is on
    }
)
"""Reasons of faults that are found while recordings are listed and their transcripts read."""

DECODER_REASONS = frozenset(
    {
        "audio_missing",
        "audio_unreadable",
        "audio_changed",  # other bytes than when the recordings were listed
        "empty_audio_file",  # no bytes
        "no_samples",  # a header and nothing behind it
        "not_audio",  # no format that is known, whatever its name ends in
        "unsupported_codec",  # audio in a coding that neither library reads
        "bad_audio_header",  # fields that contradict each other or make no sense
        "audio_truncated",  # less audio than its header declares
        "audio_damaged",  # decoding broke off in the middle
        "non_finite_audio",  # samples that are no numbers
        "sampling_rate_too_low",
        "audio_too_long",
        "files_disagree",  # the files of the two speakers differ in rate or length, or hold several channels each
    }
)
"""Reasons of the `RowFault`s that a decoder may answer with."""
