"""Which take a recording is of: by the code in its name, or, in a long recording, by what is said."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from bystander.schemas.engines import Recogniser, RecognitionRequest, RowFault, Samples
from bystander.schemas.recording_session import ImportSettings, SessionSheet, Take
from bystander.schemas.recordings import Channels
from bystander.tasks.audio.speech_activity import FRAME_S, estimate_floor, find_energetic, list_runs, measure_levels
from bystander.tasks.metrics.text_normaliser import normalise_text

_MIN_STRETCH_S = 0.4
_AROUND_S = 0.5
"""Kept about a stretch of a long recording, so that quiet onsets are in it."""
_JOINED_GAIN = 0.05


@dataclass(frozen=True, slots=True)
class FoundTake:
    """A stretch of sound that may be a take. `take` is None where it fits no script; then `heard` is what was said."""

    source: str
    """Name of the file."""
    digest: str
    """SHA-256 of the file."""
    start_s: float
    """Of the stretch, in the file."""
    samples: Channels
    rate: int
    take: Take | None
    heard: str = ""


def find_code(name: str, sheet: SessionSheet) -> Take | None:
    """Return the take whose code stands in a file's name, `TJ007-2.wav` say, in any case; None where none does."""
    by_code = {take.code: take for take in sheet.takes}
    for match in re.finditer(rf"(?<![a-z0-9]){sheet.prefix}[-_ ]?(\d{{3,5}})(?!\d)", name, re.IGNORECASE):
        take = by_code.get(f"{sheet.prefix}{int(match[1]):03d}")
        if take is not None:
            return take
    return None


def split_recording(
    samples: Channels,
    rate: int,
    source: str,
    digest: str,
    sheet: SessionSheet,
    settings: ImportSettings,
    recogniser: Recogniser,
) -> Iterator[FoundTake]:
    """Yield the stretches of a long recording between its long pauses, in order, each with the take that it says.

    A stretch and the next are one take where their words fit it better together. Stretches shorter than 0.4 s are
    noises.

    Raises:
        EngineError: the recogniser as a whole failed.
    """
    mono = mix_down(samples)
    spans = find_stretches(mono, rate, settings.take_pause_s)
    language = str(sheet.takes[0].row["language"])
    requests = [RecognitionRequest(mono[start:end], rate, language) for start, end in spans]
    texts = ["" if isinstance(r, RowFault) else r.text for r in recogniser.recognise(requests)]
    scripts = [(take, normalise_text(take.transcript, language).split()) for take in sheet.takes]

    def match(text: str) -> tuple[float, Take | None]:
        words = normalise_text(text, language).split()
        scores = [(_compare(words, script), -at, take) for at, (take, script) in enumerate(scripts)]
        score, _, take = max(scores, key=lambda one: one[:2])
        return (score, take) if score >= settings.min_take_similarity else (score, None)

    at = 0
    while at < len(spans):
        score, take = match(texts[at])
        until, heard = at + 1, texts[at]
        if until < len(spans):
            both = f"{texts[at]} {texts[until]}"
            joined, joint = match(both)
            if joint is not None and joined > max(score, match(texts[until])[0]) + _JOINED_GAIN:
                take, until, heard = joint, at + 2, both
        start, end = spans[at][0], spans[until - 1][1]
        yield FoundTake(source, digest, start / rate, samples[start:end], rate, take, heard)
        at = until


def find_stretches(mono: Samples, rate: int, pause_s: float) -> list[tuple[int, int]]:
    """Return starts and ends, in samples, of what lies between pauses of at least `pause_s` seconds."""
    levels = measure_levels(mono, rate)
    runs = list_runs(find_energetic(levels, estimate_floor(levels))) * FRAME_S
    spans: list[list[float]] = []
    for start, end in runs.tolist():
        if spans and start - spans[-1][1] < pause_s:
            spans[-1][1] = end
        else:
            spans.append([start, end])
    around = min(_AROUND_S, pause_s / 2)
    return [
        (max(0, round((start - around) * rate)), min(len(mono), round((end + around) * rate)))
        for start, end in spans
        if end - start >= _MIN_STRETCH_S
    ]


def mix_down(samples: Channels) -> Samples:
    """Return the sum of all channels, lowered where it would clip: shape (n,), float32."""
    mono = np.asarray(samples.sum(axis=1), np.float32)
    peak = float(np.abs(mono).max()) if len(mono) else 0.0
    return mono / np.float32(peak) if peak > 1 else mono


def _compare(words: Sequence[str], script: Sequence[str]) -> float:
    return SequenceMatcher(None, words, script, autojunk=False).ratio()
