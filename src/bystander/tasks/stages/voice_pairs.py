"""The pairs of voices that may speak a row, and drawing one: for a handful of voices as for thousands."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from bystander.schemas.engines import Voice
from bystander.schemas.exclusions import VoicePair
from bystander.schemas.tpi_params import ChooseVoices
from bystander.tasks.stages.voice_sides import find_held_out_voices, iterate_held_out

_MOST_ROUNDS = 500
_DENSE_VOICES = 256
"""Up to here the matrix itself is scaled, which never leaves the range of floats, whatever the pairs."""
_BALANCED = 1e-12
_SAMPLED_VOICES = 64
_LEAST_SCALE, _MOST_SCALE = 1e-150, 1e150
_BLOCK_CELLS = 1 << 21
_STEPS = 1 << 11
"""From 0 to 1 in an embedding. Whole numbers of a vector of norm 2048 have products of 2**22 at most, which float32
sums exactly; a cosine is wrong by less than 1e-3."""

Permitted = npt.NDArray[np.bool_]
"""Which pairs may be drawn: symmetric, shape (voices, voices)."""


class PairTable:
    """The permitted pairs of voices and how probable each partner is. A byte a pair: 25 MB for 5,000 voices."""

    def __init__(
        self,
        voices: tuple[str, ...],
        weights: Permitted | npt.NDArray[np.float64],
        scale: npt.NDArray[np.float64],
    ) -> None:
        self._voices = voices
        self._weights = weights  # (voices, voices)
        self._scale = scale  # (voices,), of the columns

    @classmethod
    def build(
        cls, voices: Collection[Voice], params: ChooseVoices, taken: Collection[VoicePair] = ()
    ) -> PairTable | None:
        """Return the table over all voices that have a permitted partner, or None where no pair is permitted."""
        offered = sorted({voice.id: voice for voice in voices}.values(), key=lambda voice: voice.id)
        permitted = find_permitted(offered, params, taken)
        usable = np.flatnonzero(permitted.any(axis=1))
        if not len(usable):
            return None
        if len(usable) < len(offered):
            permitted = permitted[np.ix_(usable, usable)]
        return cls(tuple(offered[i].id for i in usable), *_balance(permitted))

    def draw(self, rng: np.random.Generator) -> tuple[str, str]:
        """Return two different voices."""
        first = int(rng.integers(len(self._voices)))
        sums = np.cumsum(self._weights[first] * self._scale)
        second = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
        return self._voices[first], self._voices[second]


class PairTables:
    """The tables of some voices, one a language, each built when it is first asked for; for any number of threads."""

    def __init__(self, voices: Sequence[Voice], params: ChooseVoices, taken: frozenset[VoicePair]) -> None:
        self.voices = voices
        self._params = params
        self._taken = taken
        self._tables: dict[str, PairTable | None] = {}
        self._lock = threading.Lock()

    def find(self, language: str) -> PairTable | None:
        """Return the table of the voices that speak a language, or None where no two may be paired."""
        main = _take_main_language(language)
        with self._lock:
            if main not in self._tables:
                speaking = [voice for voice in self.voices if _take_main_language(voice.language) == main]
                self._tables[main] = PairTable.build(speaking, self._params, self._taken)
            return self._tables[main]


def find_usable(voices: Sequence[Voice], params: ChooseVoices) -> list[Voice]:
    """Return the voices on the side that is used: all of them where it is pairs that are held out."""
    if params.use == "all" or params.hold_out_by != "voice":
        return list(voices)
    held = find_held_out_voices([voice.id for voice in voices], params.hold_out)
    return [voice for voice, is_held in zip(voices, held, strict=True) if is_held == (params.use == "held_out")]


def has_pair(voices: Sequence[Voice], params: ChooseVoices, taken: Collection[VoicePair] = ()) -> bool:
    """Return whether any pair of usable voices may be drawn."""
    # Of thousands of voices, some few have a pair: there is no need to look at all.
    few = find_permitted(voices[:_SAMPLED_VOICES], params, taken).any()
    return bool(few or find_permitted(voices, params, taken).any())


def find_permitted(voices: Sequence[Voice], params: ChooseVoices, taken: Collection[VoicePair] = ()) -> Permitted:
    """Return which pairs of usable voices may be drawn: symmetric, shape (voices, voices)."""
    names = [voice.id for voice in voices]
    permitted = ~np.eye(len(names), dtype=bool)
    if params.use != "all" and params.hold_out_by == "pair":
        for start, held in iterate_held_out(names, params.hold_out):
            permitted[start : start + len(held)] &= held == (params.use == "held_out")
    at = {name: i for i, name in enumerate(names)}
    for one, other in (*params.avoid_pairs, *taken):
        if one in at and other in at:
            permitted[at[one], at[other]] = permitted[at[other], at[one]] = False
    if params.avoid_similar is not None and len(names):
        _forbid_similar(permitted, voices, params.avoid_similar)
    return permitted


def _forbid_similar(permitted: Permitted, voices: Sequence[Voice], threshold: float) -> None:
    # In whole numbers, whose sums are exact: which side of the threshold a pair is on must not depend on a machine's
    # order of summation.
    embeddings = np.rint(np.stack([np.frombuffer(voice.embedding, "<f4") for voice in voices]) * np.float32(_STEPS))
    step = max(1, _BLOCK_CELLS // len(voices))
    for start in range(0, len(voices), step):
        block = slice(start, start + step)
        permitted[block] &= embeddings[block] @ embeddings.T < threshold * _STEPS**2


def _balance(permitted: Permitted) -> tuple[Permitted | npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return weights of pairs and a scale of their columns with which every voice is as often second as first.

    Sinkhorn's scaling: rows and columns that both sum to 1 make the roles balanced despite the missing pairs. It does
    not exist for every set of pairs (one voice that is everybody's only partner); then it is as near as the rounds
    come. Of many voices, only the scale of the columns is computed: a row is scaled where it is drawn from.
    """
    ones = np.ones(len(permitted))
    if len(permitted) <= _DENSE_VOICES:
        weights = permitted.astype(float)
        for _ in range(_MOST_ROUNDS):
            weights /= weights.sum(axis=0, keepdims=True)
            weights /= weights.sum(axis=1, keepdims=True)
        return weights, ones
    sums, columns = _multiply(permitted, ones), ones
    for _ in range(_MOST_ROUNDS):
        columns = np.clip(1 / sums, _LEAST_SCALE, _MOST_SCALE)
        rows = np.clip(1 / _multiply(permitted, columns), _LEAST_SCALE, _MOST_SCALE)
        sums = _multiply(permitted, rows)
        if np.abs(columns * sums - 1).max() < _BALANCED:
            break
    return permitted, columns


def _multiply(permitted: Permitted, vector: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the product, in blocks of rows: as numbers the whole matrix would take eight times its memory."""
    step = max(1, _BLOCK_CELLS // len(permitted))
    blocks = (permitted[i : i + step].astype(np.float64) for i in range(0, len(permitted), step))
    # Not by BLAS, whose threads get into each other's way on a machine that has more to do, and sum as they like.
    return np.concatenate([np.einsum("ij,j->i", block, vector) for block in blocks])


def _take_main_language(tag: str) -> str:
    return tag.replace("_", "-").split("-")[0].lower()
