"""What an evaluation of interruption detection is made over: cases, and when a system stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bystander.schemas.sid import NOISE, SILENCE

NOISE_SILENCE = "noise_silence"
"""The group of all clips without speech; other groups are languages."""
AVERAGE = "average"
"""The group of all cases."""
UNKNOWN = "unknown"
"""Language of a clip with speech of which none is known."""
WITHOUT_SPEECH = (SILENCE, NOISE)
"""Categories of clips without speech."""


@dataclass(frozen=True, slots=True)
class SidCase:
    """A clip of a bench as the scorer knows it.

    Attributes:
        id: of the row; in published references, the name of the audio file.
        audio: name of the audio file.
        duration_s: > 0.
        break_time_s: from the start of the clip, in [0, duration_s]; None where there is no break.
        category: of `sid.CATEGORIES`.
        language: primary subtag; None for clips without speech.
        source: file, folder or generator that it came from; of published references, the file of the line.
        recording_id: what it was cut from, where that is known: cases of one recording are no independent draws.
        text_with_break: the words with one <break>; None for clips without speech.
    """

    id: str
    audio: str
    duration_s: float
    break_time_s: float | None
    category: str
    language: str | None
    source: str
    recording_id: str | None = None
    text_with_break: str | None = None

    @property
    def total_nonbreak(self) -> bool:
        return self.break_time_s is None

    @property
    def group(self) -> str:
        """The column of the paper's Table II that it counts in: its language, or NOISE_SILENCE."""
        return NOISE_SILENCE if self.category in WITHOUT_SPEECH else (self.language or UNKNOWN)


@dataclass(frozen=True, slots=True)
class SidExample:
    """What a case sounds like, as far as the bench has it.

    Attributes:
        audio: encoded clip.
        words: `word`, `start_s` and `end_s` from the clip's start.
        context_text: what the other speaker was saying.
        context_s: from when to when, from the clip's start.
    """

    audio: bytes
    words: tuple[Mapping[str, Any], ...] = ()
    context_text: str | None = None
    context_s: tuple[float, float] | None = None


Stops = Mapping[str, float | None]
"""Id or audio name of each clip to the time in seconds at which a system stopped; None where it never did."""
