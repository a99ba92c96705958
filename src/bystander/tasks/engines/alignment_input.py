"""What every aligner does with a request first, and with the times that it found last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bystander.schemas.alignment import AlignedPhone, AlignedWord, AlignmentRequest
from bystander.schemas.engines import RowFault
from bystander.tasks.engines.engine_audio import measure_peak_level

SILENCE_DBFS = -60.0
"""A clip whose loudest 50 ms lie below this has no word in it."""
_SHORTEST_S = 0.001
"""Where clipping to the clip would leave nothing of a word or phone: its length."""


def find_unalignable(request: AlignmentRequest, languages: frozenset[str]) -> RowFault | None:
    """Return why no aligner of these languages can align the request, or None.

    Reasons: `language_not_aligned`, `no_pronunciation` (there are no words), `audio_too_short` (no samples),
    `no_alignment` (samples that are no numbers; silence).
    """
    language = request.language.split("-")[0].lower()
    if language not in languages:
        return RowFault("language_not_aligned", f"aligns {', '.join(sorted(languages))}, not {language}")
    if not request.words:
        return RowFault("no_pronunciation", "there are no words")
    if not len(request.samples):
        return RowFault("audio_too_short", "the clip has no samples")
    if not np.isfinite(request.samples).all():
        return RowFault("no_alignment", "the clip has samples that are no numbers")
    level = measure_peak_level(request.samples, request.sampling_rate)
    if level < SILENCE_DBFS:
        return RowFault("no_alignment", f"the clip is silent: its loudest 50 ms are at {level:.0f} dBFS")
    return None


def shift_words(words: Sequence[AlignedWord], shift_s: float, duration_s: float) -> tuple[AlignedWord, ...]:
    """Return the words and their phones `shift_s` later, kept inside the clip of `duration_s` seconds."""
    return tuple(
        AlignedWord(
            word.word,
            *_shift(word.start_s, word.end_s, shift_s, duration_s),
            word.score,
            tuple(
                AlignedPhone(phone.phone, *_shift(phone.start_s, phone.end_s, shift_s, duration_s))
                for phone in word.phones
            ),
            word.in_vocabulary,
        )
        for word in words
    )


def _shift(start_s: float, end_s: float, shift_s: float, duration_s: float) -> tuple[float, float]:
    start_s = min(max(start_s + shift_s, 0.0), max(duration_s - _SHORTEST_S, 0.0))
    return start_s, min(max(end_s + shift_s, start_s + _SHORTEST_S), duration_s)
