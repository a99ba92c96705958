"""Decoding by ffmpeg's libraries, which PyAV's wheels bring along: no program has to be installed.

pydub would start the programs ffmpeg and ffprobe, which no wheel of a free licence brings both of, and hold every
recording in memory twice as 16-bit bytes. PyAV is here anyway: faster-whisper needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from bystander.schemas.errors import EngineError
from bystander.schemas.recordings import Channels


class FfmpegError(EngineError):
    """ffmpeg cannot read a file; `decoded_s` is how much it had read before that."""

    def __init__(self, message: str, decoded_s: float = 0.0, is_audio: bool = False) -> None:
        super().__init__(message)
        self.decoded_s = decoded_s
        self.is_audio = is_audio
        """Whether there is an audio stream, whose coding or content is what cannot be read."""


@dataclass(frozen=True, slots=True)
class FfmpegStream:
    """An opened file: rate in Hz, channels, and its samples block by block, each of shape (n, channels).

    `declared_s` is the duration that its header declares, None where it declares none.
    """

    sampling_rate: int
    channels: int
    declared_s: float | None
    blocks: Iterator[Channels]


def describe_version() -> str:
    """Return the version of the ffmpeg libraries."""
    import av

    return str(av.ffmpeg_version_info)


@contextmanager
def open_with_ffmpeg(path: str) -> Iterator[FfmpegStream]:
    """Open the first audio stream of a local file.

    Raises:
        FfmpegError: it holds no audio that ffmpeg reads; `blocks` raise it too when decoding breaks off.
    """
    import av

    try:
        # A playlist is no recording: nothing is opened but this file.
        container = av.open(f"file:{path}", metadata_errors="replace", options={"protocol_whitelist": "file"})
    except (av.FFmpegError, OSError, ValueError) as exc:
        raise FfmpegError(_describe(exc)) from exc
    with container:
        if not container.streams.audio:
            kinds = ", ".join(sorted({stream.type for stream in container.streams})) or "nothing"
            raise FfmpegError(f"holds {kinds} and no audio")
        stream = container.streams.audio[0]
        codec = stream.codec_context
        if codec is None:
            raise FfmpegError("its coding is unknown to ffmpeg", is_audio=True)
        channels = int(codec.layout.nb_channels)
        if not stream.rate or not channels:
            raise FfmpegError("its header gives no sampling rate or no channels", is_audio=True)
        declared_s = float(stream.duration * stream.time_base) if stream.duration and stream.time_base else None
        blocks = _decode(container, stream, int(stream.rate), channels)
        yield FfmpegStream(int(stream.rate), channels, declared_s, blocks)


def _decode(container: Any, stream: Any, rate: int, channels: int) -> Iterator[Channels]:
    import av

    resampler = av.AudioResampler(format="flt", layout=stream.codec_context.layout, rate=rate)
    count = 0
    try:
        for frame in container.decode(stream):
            for converted in resampler.resample(frame):
                block = converted.to_ndarray().reshape(-1, channels)
                count += len(block)
                yield np.ascontiguousarray(block, np.float32)
        for converted in resampler.resample(None):
            block = converted.to_ndarray().reshape(-1, channels)
            count += len(block)
            yield np.ascontiguousarray(block, np.float32)
    except (av.FFmpegError, ValueError) as exc:
        raise FfmpegError(_describe(exc), count / rate, is_audio=True) from exc


def _describe(exc: BaseException) -> str:
    text = getattr(exc, "strerror", None) or str(exc)
    return str(text).strip().split("\n", 1)[0][:160] or type(exc).__name__
