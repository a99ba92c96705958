"""Which take a recording is of: by the code in its name, or, in a long recording, by what is said."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bystander.schemas.engines import Recogniser, RecognitionRequest, RowFault, Samples
from bystander.schemas.recording_session import ImportSettings, Take
from bystander.schemas.recordings import Channels
from bystander.tasks.audio.speech_activity import FRAME_S, estimate_floor, find_energetic, list_runs, measure_levels
from bystander.tasks.session.match_script import ScriptMatcher
from bystander.tasks.session.slates import find_slate, is_misheard_slate

_MIN_STRETCH_S = 0.4
_AROUND_S = 0.5
"""Kept about a stretch of a long recording, so that quiet onsets are in it."""
_JOINED_GAIN = 0.05
_MOST_JOINED = 3


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


def find_code(name: str, takes: Sequence[Take]) -> Take | None:
    """Return the take whose code stands in a file's name, `TJ007-2.wav` say, in any case; None where none does."""
    by_code = {take.code: take for take in takes}
    prefix = takes[0].code[:2]
    for match in re.finditer(rf"(?<![a-z0-9]){prefix}[-_ ]?(\d{{3,5}})(?!\d)", name, re.IGNORECASE):
        take = by_code.get(f"{prefix}{int(match[1]):03d}")
        if take is not None:
            return take
    return None


def split_recording(
    samples: Channels,
    rate: int,
    source: str,
    digest: str,
    matcher: ScriptMatcher,
    settings: ImportSettings,
    recogniser: Recogniser,
) -> Iterator[FoundTake]:
    """Yield the stretches of a recording between its long pauses, in order, each with the take that it says.

    A stretch and the next one or two are one take where their words fit it better together. Stretches shorter than
    0.4 s are noises. A stretch that is a slate alone is not yielded: if what follows it is nothing of the script, it is
    taken for a try at the take that the slate named. Where another slate follows, or nothing, what lies between is:
    people were too quiet to be found.

    Raises:
        EngineError: the recogniser as a whole failed.
    """
    mono = mix_down(samples)
    spans = find_stretches(mono, rate, settings.take_pause_s)
    language = str(matcher.takes[0].row["language"])
    requests = [RecognitionRequest(mono[start:end], rate, language) for start, end in spans]
    texts = ["" if isinstance(r, RowFault) else r.text for r in recogniser.recognise(requests)]
    by_number = {take.number: take for take in matcher.takes}
    at, slated, slate_end = 0, None, 0
    while at < len(spans):
        start = spans[at][0]
        slate = find_slate(texts[at], tuple(by_number), language)
        if slate is not None:
            named = by_number[slate.number]
            if slated is not None and slated != named and start - slate_end > _MIN_STRETCH_S * rate:
                yield FoundTake(source, digest, slate_end / rate, samples[slate_end:start].copy(), rate, slated)
            if not slate.rest:
                slated, slate_end = named, spans[at][1]
                at += 1
                continue
            if matcher.match(slate.rest)[0] > matcher.match(texts[at])[0]:
                slated = named
        count, score, take = _join(texts[at : at + _MOST_JOINED], matcher, by_number, language)
        heard = " ".join(texts[at : at + count])
        if score < settings.min_take_similarity and slated is None and is_misheard_slate(heard, language):
            at += 1
            continue
        found = take if score >= settings.min_take_similarity else slated
        end = spans[at + count - 1][1]
        yield FoundTake(source, digest, start / rate, samples[start:end].copy(), rate, found, heard)
        at, slated = at + count, None
    if slated is not None and len(mono) - slate_end > _MIN_STRETCH_S * rate:
        yield FoundTake(source, digest, slate_end / rate, samples[slate_end:].copy(), rate, slated)


def _join(
    texts: Sequence[str], matcher: ScriptMatcher, numbers: Collection[int], language: str
) -> tuple[int, float, Take]:
    """Return how many of these texts are one take together, how well they fit it, and the take."""
    best, parts = matcher.match(texts[0]), matcher.match(texts[0])[0]
    count = 1
    for until in range(2, len(texts) + 1):
        if find_slate(texts[until - 1], tuple(numbers), language) is not None:
            break  # another try or take begins
        joined = matcher.match(" ".join(texts[:until]))
        parts = max(parts, matcher.match(texts[until - 1])[0])
        if joined[0] > parts + _JOINED_GAIN:
            count, best = until, joined
    return count, *best


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
