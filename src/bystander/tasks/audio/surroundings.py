"""Room responses and background noises from a user's folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bystander.schemas.engines import Samples
from bystander.schemas.errors import ConfigError, InputError
from bystander.tasks.audio.coding import decode_audio
from bystander.tasks.audio.levels import convert_from_db, measure_peak
from bystander.tasks.audio.resampling import resample

CLIP_SUFFIXES = frozenset({".wav", ".flac", ".ogg", ".opus", ".mp3", ".aif", ".aiff"})


def list_clips(folder: str, setting: str) -> tuple[Path, ...]:
    """Return the audio files in a folder and its subfolders, ordered by their path within it.

    Args:
        folder: the folder.
        setting: the field that names it, for the error.

    Raises:
        ConfigError: there is no such folder, or no audio file in it.
    """
    root = Path(folder)
    if not root.is_dir():
        raise ConfigError(f"{setting}: {folder} is not a folder; name one with audio files, or null for none")
    clips = [path for path in root.rglob("*") if path.suffix.lower() in CLIP_SUFFIXES and path.is_file()]
    if not clips:
        raise ConfigError(f"{setting}: {folder} holds no audio file ({', '.join(sorted(CLIP_SUFFIXES))})")
    return tuple(sorted(clips, key=lambda path: path.relative_to(root).as_posix()))


def load_clip(path: Path, setting: str, rate: int) -> Samples:
    """Return the first channel of a file at `rate` Hz.

    Raises:
        ConfigError: the file cannot be read, or is empty, silent or not finite.
    """
    try:
        samples, from_rate = decode_audio(path.read_bytes())
    except (OSError, InputError) as exc:
        raise ConfigError(f"{setting}: {path} cannot be read as audio; repair or remove it ({exc})") from exc
    if not np.all(np.isfinite(samples)) or measure_peak(samples) == 0:
        raise ConfigError(f"{setting}: {path} is empty, silent or not finite; remove it")
    return resample(samples, from_rate, rate)


def apply_room(samples: Samples, response: Samples) -> Samples:
    """Return `samples` as heard in a room, as loud as before and longer by the response's tail.

    What precedes the response's largest peak is cut, so that the direct sound stays where it was in time.
    """
    from scipy.signal import fftconvolve

    direct = response[int(np.argmax(np.abs(response))) :]
    wet: Samples = fftconvolve(samples, direct).astype(np.float32)
    before, after = _sum_squares(samples), _sum_squares(wet)
    return wet * np.float32((before / after) ** 0.5) if after > 0 else wet


def add_noise(samples: Samples, noise: Samples, snr_db: float, start: int = 0) -> Samples:
    """Return `samples` plus noise `snr_db` below their RMS level.

    The noise begins at its sample `start` (taken modulo its length) and is repeated as often as needed.
    """
    bed = np.take(noise, np.arange(start, start + len(samples)), mode="wrap")
    power = _sum_squares(bed)
    if power == 0:
        return samples
    gain = (_sum_squares(samples) / power) ** 0.5 * convert_from_db(-snr_db)
    return samples + bed * np.float32(gain)


def _sum_squares(samples: Samples) -> float:
    # Not a dot product: its rounding depends on the number of BLAS threads.
    return float(np.sum(np.square(samples, dtype=np.float64)))
