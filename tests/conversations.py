"""Two-channel recordings whose speech is known, from noise shaped like syllables or from any clips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bystander.tasks.audio.channels import encode_channels
from bystander.tasks.audio.coding import quantise

RATE = 16000
Piece = tuple[int, float, float, str]
"""Channel, start and end in seconds, and what is said."""


def make_speech(seconds: float, seed: int = 0, rate: int = RATE, level: float = 0.1) -> np.ndarray:
    """Return noise with the loudness of syllables, never far below `level`, that begins and ends at full loudness."""
    count = round(seconds * rate)
    noise = np.random.default_rng(seed).standard_normal(count)
    syllables = 0.75 + 0.25 * np.cos(2 * np.pi * 4 * np.arange(count) / rate)
    return (level * noise * syllables).astype(np.float32)


def make_channels(
    pieces: Sequence[Piece], seconds: float, rate: int = RATE, floor: float = 0.0003, leak: float = 0.0
) -> np.ndarray:
    """Return the 16-bit values of both channels, shape (n, 2): speech where the pieces say, over noise.

    `leak` is how much of each channel is heard in the other.
    """
    tracks = floor * np.random.default_rng(99).standard_normal((round(seconds * rate), 2))
    for at, (channel, start_s, end_s, _) in enumerate(pieces):
        first = round(start_s * rate)
        speech = make_speech(end_s - start_s, at, rate)[: max(0, len(tracks) - first)]
        tracks[first : first + len(speech), channel] += speech
    return quantise((tracks + leak * tracks[:, ::-1]).astype(np.float32))


def make_utterance(
    channel: int, start_s: float | None, end_s: float | None, text: str, words: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    return {"channel": channel, "start_s": start_s, "end_s": end_s, "text": text, "words": list(words)}


def make_word(word: str, start_s: float | None, end_s: float | None) -> dict[str, Any]:
    return {"word": word, "start_s": start_s, "end_s": end_s, "score": None}


def make_recording(pieces: Sequence[Piece], seconds: float, rate: int = RATE, **columns: Any) -> dict[str, Any]:
    """Return a `RECORDING` row with one utterance a piece."""
    values = columns.pop("values", None)
    if values is None:
        values = make_channels(pieces, seconds, rate)
    row = {
        "recording_id": "rec-1",
        "source": "talks",
        "licence": "CC0",
        "language": "en",
        "speakers": ["ann", "bob"],
        "audio": {"bytes": encode_channels(values, rate), "path": "rec-1.flac"},
        "sampling_rate": rate,
        "duration_s": len(values) / rate,
        "utterances": [make_utterance(*piece) for piece in pieces],
        "transcript_source": "ctm",
        "synthetic": False,
        "truths": [],
    }
    return {**row, **columns}
