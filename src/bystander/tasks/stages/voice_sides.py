"""On which side of the hold-out a voice or a pair of voices is: its own hash decides, whatever others there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from bystander.schemas.identity import digest_json
from bystander.tasks.stages.strata import mix_bits

# Chosen so that both sides of Kokoro's and the fake's voices are balanced: every voice has partners on either side of
# the pairs, and a quarter of the voices has women and men, no pair of them to be avoided.
_PAIR_SALT = np.uint64(0x8EBC6AF09C88C6E3)
_VOICE_SALT = np.uint64(0x6BACF82A6BBAA186)
_BLOCK_PAIRS = 1 << 20


def find_held_out(voices: Sequence[str], share: float) -> npt.NDArray[np.bool_]:
    """Return which pairs are set aside: symmetric, shape (voices, voices). Each pair's own hash decides."""
    held = np.empty((len(voices), len(voices)), np.bool_)
    for start, block in iterate_held_out(voices, share):
        held[start : start + len(block)] = block
    return held


def iterate_held_out(voices: Sequence[str], share: float) -> Iterator[tuple[int, npt.NDArray[np.bool_]]]:
    """Yield `find_held_out` in blocks of rows, each with its first row: the hashes of 5,000 voices take 200 MB."""
    keys = _hash_voices(voices)
    step = max(1, _BLOCK_PAIRS // max(1, len(keys)))
    for start in range(0, len(keys), step):
        mixed = mix_bits(keys[start : start + step, None] ^ keys[None, :]) ^ _PAIR_SALT
        yield start, _lie_below(mix_bits(mixed), share)


def find_held_out_voices(voices: Sequence[str], share: float) -> npt.NDArray[np.bool_]:
    """Return which voices are set aside: shape (voices,). Each voice's own hash decides."""
    return _lie_below(mix_bits(mix_bits(_hash_voices(voices)) ^ _VOICE_SALT), share)


def _hash_voices(voices: Sequence[str]) -> npt.NDArray[np.uint64]:
    return np.array([int(digest_json(voice)[:16], 16) for voice in voices], np.uint64)


def _lie_below(places: npt.NDArray[np.uint64], share: float) -> npt.NDArray[np.bool_]:
    return np.asarray(places.astype(np.float64) / 2.0**64 < share)
