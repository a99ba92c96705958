"""Decoding by pydub, which starts the program ffmpeg: for codings that the libraries in PyAV's wheels lack.

It writes the whole recording to a temporary WAV file of 16 bits and holds it in memory twice.
"""

from __future__ import annotations

import shutil
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from bystander.schemas.errors import EngineSetupError
from bystander.tasks.engines.ffmpeg_audio import FfmpegError, FfmpegStream

_BLOCK = 1 << 16


def describe_program() -> str:
    """Return the version of the program ffmpeg that pydub would start.

    Raises:
        EngineSetupError: pydub is missing, or there is no ffmpeg.
    """
    _load_pydub()
    try:
        done = subprocess.run([_find_program(), "-version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as exc:
        raise EngineSetupError(f"the program ffmpeg does not run ({exc})") from exc
    return " ".join(done.stdout.split()[:3])


@contextmanager
def open_with_pydub(path: str) -> Iterator[FfmpegStream]:
    """Decode the first audio stream of a local file.

    Raises:
        FfmpegError: it holds no audio that ffmpeg reads.
    """
    segments = _load_pydub()
    from pydub.exceptions import CouldntDecodeError

    segments.converter = _find_program()
    try:
        # This way of pydub's needs no ffprobe, and looks at the content before the name.
        segment = segments.from_file_using_temporary_files(path)
    except (CouldntDecodeError, OSError, ValueError, IndexError) as exc:
        lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
        raise FfmpegError(lines[-1][:160] if lines else type(exc).__name__) from exc
    values = np.array(segment.get_array_of_samples()).reshape(-1, segment.channels)
    scale = np.float32(1 / (1 << (8 * segment.sample_width - 1)))
    blocks = (values[at : at + _BLOCK].astype(np.float32) * scale for at in range(0, len(values), _BLOCK))
    yield FfmpegStream(int(segment.frame_rate), int(segment.channels), None, blocks)


def _find_program() -> str:
    program = shutil.which("ffmpeg")
    if program is not None:
        return program
    try:
        from imageio_ffmpeg import get_ffmpeg_exe

        return str(get_ffmpeg_exe())
    except (ImportError, RuntimeError) as exc:
        raise EngineSetupError(
            "pydub needs the program ffmpeg; install it, or run: pip install 'bystander[pydub]'"
        ) from exc


def _load_pydub() -> Any:
    try:
        with warnings.catch_warnings():
            # pydub looks for ffmpeg while it is imported, and uses audioop, which Python 3.13 has as a package only.
            warnings.simplefilter("ignore")
            from pydub import AudioSegment
    except ImportError as exc:
        raise EngineSetupError(f"pydub is missing ({exc}); run: pip install 'bystander[pydub]'") from exc
    return AudioSegment
