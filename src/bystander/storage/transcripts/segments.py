"""What every parser of transcripts returns: stretches of speech with their speaker, times and words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from bystander.schemas.errors import InputError
from bystander.tasks.texts.transcript_marks import drop_marks

MAX_PAUSE_S = 0.5
"""Words of one speaker with pauses up to this long are one utterance, where the format has words alone."""

_CJK = r"\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"
_CHINESE_SPACE = re.compile(rf"(?<=[{_CJK}]) (?=[{_CJK}])")
_SILENCES = frozenset({"sil", "sp", "spn", "silence", "noise", "eps", "xxx"})


class TranscriptError(InputError):
    """A transcript cannot be used; `str` says where and why, without the file's name."""

    def __init__(self, message: str, reason: str = "transcript_invalid") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Word:
    """A word, and its times in seconds from the start of the recording where they are known."""

    word: str
    start_s: float | None = None
    end_s: float | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of one speaker's speech.

    `recording` is the id that the format gives it, `channel` and `speaker` are its labels as written; each is None
    where the format has none. Times are seconds from the start of the recording; both are None where the transcript
    has no times. `line` is where it stands in its file, from 1 (an element's or interval's number where it has no
    lines).
    """

    text: str
    line: int
    start_s: float | None = None
    end_s: float | None = None
    speaker: str | None = None
    channel: str | None = None
    recording: str | None = None
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Transcript:
    """The segments of a file in its own order, and the language where the file names it."""

    segments: tuple[Segment, ...]
    language: str | None = None


def read_time(value: str, where: str) -> float:
    """Return a time in seconds, given as seconds or as [h:]m:s.

    Raises:
        TranscriptError: it is no time, is negative or not finite; `where` begins the message.
    """
    try:
        *clock, rest = value.strip().replace(",", ".").split(":")
        seconds = float(rest)
        for power, part in enumerate(reversed(clock), 1):
            seconds += int(part) * 60.0**power
    except ValueError:
        raise TranscriptError(f"{where}: {value[:40]!r} is no time in seconds") from None
    return check_time(seconds, where)


def check_time(seconds: float, where: str) -> float:
    """Return the time; a `TranscriptError` where it is negative or not finite."""
    if not math.isfinite(seconds):
        raise TranscriptError(f"{where}: the time {seconds} is no finite number")
    if seconds < 0:
        raise TranscriptError(f"{where}: the time {seconds:g} s is negative")
    return seconds


def check_span(start_s: float, end_s: float, where: str) -> tuple[float, float]:
    """Return both; a `TranscriptError` where the end lies before the start."""
    if end_s < start_s:
        raise TranscriptError(f"{where}: ends at {end_s:g} s, before it starts at {start_s:g} s")
    return start_s, end_s


def is_speech(text: str) -> bool:
    """Whether a label of a word or interval is speech, not a mark such as `[silence]`, `<eps>` or `sil`."""
    said = drop_marks(text)
    return bool(said) and said.casefold() not in _SILENCES


def join_words(words: Iterable[str]) -> str:
    """Return the words as one text, with no space between two Chinese characters."""
    return _CHINESE_SPACE.sub("", " ".join(" ".join(words).split()))


def group_words(words: Sequence[Segment], max_pause_s: float = MAX_PAUSE_S) -> Iterator[Segment]:
    """Yield utterances from segments of one timed word each, in order of time within each speaker.

    A pause longer than `max_pause_s` ends an utterance, and so does a word that is no speech.
    """
    lanes: dict[tuple[str | None, str | None, str | None], list[Segment]] = {}
    for word in words:
        lanes.setdefault((word.recording, word.channel, word.speaker), []).append(word)
    for lane in lanes.values():
        lane.sort(key=lambda word: (word.start_s or 0.0, word.end_s or 0.0))
        held: list[Segment] = []
        for word in lane:
            speaks = is_speech(word.text)
            if held and (not speaks or (word.start_s or 0.0) - (held[-1].end_s or 0.0) > max_pause_s):
                yield _join(held)
                held = []
            if speaks:
                held.append(word)
        if held:
            yield _join(held)


def _join(words: Sequence[Segment]) -> Segment:
    return replace(
        words[0],
        text=join_words(word.text for word in words),
        end_s=max(word.end_s or 0.0 for word in words),
        words=tuple(word.words[0] if word.words else Word(word.text, word.start_s, word.end_s) for word in words),
    )


def number_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, each with its number from 1."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield number, line.strip()
