"""A fake of the aligners: instant and deterministic, and right on fake speech.

The fake speech engine takes the same time for every character, and a space takes it too. So the words are spread over
the clip's sound by their characters; of a clip with pauses, over all of its sound from the first to the last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bystander.schemas.alignment import AlignedPhone, AlignedWord, AlignmentReply, AlignmentRequest
from bystander.schemas.engines import EngineIdentity, RowFault
from bystander.schemas.sid_engine_configs import FakeAlignerConfig
from bystander.tasks.engines.alignment_input import find_unalignable
from bystander.tasks.engines.model_revision import ResolveModel

_ACTIVE = 0.1
"""Of the peak; what lies below it before and after is no speech."""
_SHORTEST_CHARACTER_S = 0.005
_LANGUAGES = frozenset({"en", "zh"})


class FakeAligner:
    """Spreads the words over the clip's sound. Each character is a phone."""

    def __init__(
        self,
        config: FakeAlignerConfig,
        resolve_model: ResolveModel | None = None,  # noqa: ARG002 - all aligners are built alike
    ) -> None:
        self._config = config

    @property
    def identity(self) -> EngineIdentity:
        return EngineIdentity("aligner", "fake_aligner", "tones", "1")

    @property
    def languages(self) -> frozenset[str]:
        return _LANGUAGES

    def align(self, requests: Sequence[AlignmentRequest]) -> list[AlignmentReply | RowFault]:
        """Align the requests; scores are 0. Row faults: those of any aligner but `low_alignment_score`."""
        return [self._align(request) for request in requests]

    def close(self) -> None:
        """Nothing to close."""

    def _align(self, request: AlignmentRequest) -> AlignmentReply | RowFault:
        fault = find_unalignable(request, _LANGUAGES)
        if fault is not None:
            return fault
        for index, word in enumerate(request.words):
            if not any(character.isalnum() for character in word):
                return RowFault("no_pronunciation", f"word {index}, {word!r}, has nothing that can be pronounced")
        magnitude = np.abs(request.samples)
        loud = np.flatnonzero(magnitude >= _ACTIVE * magnitude.max())
        start_s = float(loud[0]) / request.sampling_rate
        characters = sum(len(word) + 1 for word in request.words) - 1
        each_s = (float(loud[-1] + 1) / request.sampling_rate - start_s) / characters
        if each_s < _SHORTEST_CHARACTER_S:
            return RowFault("audio_too_short", f"{each_s * characters:.2f} s of sound for {characters} characters")
        words: list[AlignedWord] = []
        place = 0
        for word in request.words:
            edges = [start_s + (place + k) * each_s for k in range(len(word) + 1)]
            phones = tuple(AlignedPhone(c, a, b) for c, a, b in zip(word, edges, edges[1:], strict=False))
            words.append(AlignedWord(word, edges[0], edges[-1], 0.0, phones))
            place += len(word) + 1
        return AlignmentReply(tuple(words), 0.0)
