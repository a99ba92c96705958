"""Sound files for browsers: clips of the bench, and noise that stands where a clip would."""

from __future__ import annotations

import io

import numpy as np

from bystander.schemas.engines import Samples
from bystander.schemas.study import ClipFormat
from bystander.tasks.audio.coding import encode_wav, quantise
from bystander.tasks.audio.noise_generators import GENERATORS, generate_noise

_RATE = 24_000
_LEVEL_DBFS = -28.0
_SHORTEST_S, _LONGEST_S = 3.0, 6.0


def encode_clip(samples: Samples, rate: int, form: ClipFormat) -> bytes:
    """Return mono samples, float32 in [-1, 1), as a file that browsers play."""
    if form == "wav":
        return encode_wav(samples, rate)
    import soundfile

    buffer = io.BytesIO()
    if form == "mp3":
        soundfile.write(buffer, quantise(samples), rate, format="MP3", subtype="MPEG_LAYER_III")
    else:
        soundfile.write(buffer, samples, rate, format="OGG", subtype="VORBIS")
    return buffer.getvalue()


def make_noise(number: int, rng: np.random.Generator) -> tuple[Samples, int]:
    """Return seconds of noise as long as a clip, and their rate in Hz; numbers go through the kinds of noise."""
    kinds = sorted(GENERATORS)
    seconds = float(rng.uniform(_SHORTEST_S, _LONGEST_S))
    return generate_noise(kinds[number % len(kinds)], seconds, _RATE, _LEVEL_DBFS, rng), _RATE
