"""A stretch of a long recording, read without the rest of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


class ExcerptError(Exception):
    """A stretch cannot be read: `reason` is a stable code, `str` a sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


EXCERPT_REASONS = frozenset({"audio_missing", "audio_unreadable", "beyond_recording", "files_disagree"})


def read_excerpt(paths: Sequence[str], start_s: float, end_s: float) -> tuple[npt.NDArray[np.float32], int]:
    """Return the samples of a stretch, and their rate in Hz.

    A stretch that begins before the recording or ends after it is cut there.

    Args:
        paths: files or URLs, each with one channel or several; their channels come one after the other.
        start_s: seconds from the start of the recording.
        end_s: likewise; after `start_s`.

    Returns:
        Shape (n, channels), float32, range [-1, 1].

    Raises:
        ExcerptError: with a reason of `EXCERPT_REASONS`.
    """
    parts, rates = [], set()
    for path in paths:
        part, rate = _read_one(path, start_s, end_s)
        parts.append(part)
        rates.add(rate)
    if len(rates) > 1:
        raise ExcerptError("files_disagree", f"its files have rates of {', '.join(map(str, sorted(rates)))} Hz")
    length = max(len(part) for part in parts)
    padded = [np.pad(part, ((0, length - len(part)), (0, 0))) for part in parts]
    return np.concatenate(padded, axis=1), rates.pop()


def _read_one(path: str, start_s: float, end_s: float) -> tuple[npt.NDArray[np.float32], int]:
    import fsspec
    import soundfile

    try:
        with fsspec.open(path, "rb") as stream, soundfile.SoundFile(stream) as file:
            rate = int(file.samplerate)
            start = round(max(0.0, start_s) * rate)
            if start >= file.frames:
                raise ExcerptError(
                    "beyond_recording", f"begins at {start_s:.2f} s, and {path} ends at {file.frames / rate:.2f} s"
                )
            file.seek(start)
            samples = file.read(round(end_s * rate) - start, dtype="float32", always_2d=True)
    except FileNotFoundError as exc:
        raise ExcerptError("audio_missing", f"{path}: is not there any more") from exc
    except soundfile.LibsndfileError as exc:
        raise ExcerptError(
            "audio_unreadable", f"{path}: cannot be read ({exc.error_string.rstrip('.')}); make a WAV file of it"
        ) from exc
    except OSError as exc:
        raise ExcerptError("audio_unreadable", f"{path}: cannot be read ({exc})") from exc
    if not np.isfinite(samples).all():
        raise ExcerptError("audio_unreadable", f"{path}: holds samples that are no numbers")
    return samples, rate
