"""Praat's TextGrid, long or short, one tier a speaker or tiers of words and phones as the Montreal aligner writes."""

from __future__ import annotations

import re
from typing import Any

from bystander.storage.transcripts.segments import (
    Segment,
    Transcript,
    TranscriptError,
    Word,
    check_span,
    group_words,
    is_speech,
    join_words,
    read_time,
)

_WORDS = frozenset({"word", "words", "wrd", "wd"})
_IGNORED = frozenset({"phone", "phones", "phn", "phoneme", "phonemes", "syllable", "syllables"})
_UNNAMED = frozenset({"", "utterance", "utterances", "sentence", "sentences", "text", "transcript", "transcription"})
_COUNTS = (
    re.compile(r"intervals ?: ?size ?= ?(\d+)"),
    re.compile(r'"IntervalTier"\s+"(?:[^"]|"")*"\s+\S+\s+\S+\s+(\d+)'),
)


def parse_text_grid(text: str) -> Transcript:
    """Parse a TextGrid by praatio.

    A tier's name is its speaker. Of `NAME - words` and `words`, the intervals are words, which are joined to
    utterances by their pauses; tiers of phones or syllables and tiers of points are left out, and so is a speaker's
    tier of utterances where there is one of words too. `utterances`, `text` and their like name no speaker.

    Raises:
        TranscriptError: names the tier and interval and what is wrong.
    """
    tiers = _read_tiers(text)
    with_words = {speaker for speaker, is_words, _ in tiers if is_words}
    segments: list[Segment] = []
    for speaker, is_words, entries in tiers:
        if is_words or speaker not in with_words:
            found = [_make_segment(speaker, number, entry, is_words) for number, entry in entries]
            segments += group_words(found) if is_words else [one for one in found if is_speech(one.text)]
    return Transcript(tuple(segments))


def _read_tiers(text: str) -> list[tuple[str | None, bool, list[tuple[int, Any]]]]:
    """Return the speaker of each tier that counts, whether its intervals are words, and the intervals, numbered."""
    from praatio.utilities.textgrid_io import parseTextgridStr

    try:
        tiers = parseTextgridStr(text, includeEmptyIntervals=True)["tiers"]
        kept = [(str(tier["name"]), list(tier["entries"])) for tier in tiers if tier["class"] == "IntervalTier"]
    except Exception as exc:  # praatio raises whatever its searches meet: IndexError, ValueError, AttributeError, ...
        raise TranscriptError(
            f"is no TextGrid that praatio can read ({type(exc).__name__}: {str(exc)[:80]}); save it anew from Praat",
            "transcript_unreadable",
        ) from exc
    declared = sum(int(count) for pattern in _COUNTS for count in pattern.findall(text))
    there = sum(len(entries) for _, entries in kept)
    if declared and there < declared:
        raise TranscriptError(f"declares {declared} intervals and has {there}: it is cut off or damaged")
    found = []
    for name, entries in kept:
        speaker, _, kind = (part.strip() for part in name.rpartition(" - "))
        folded = kind.casefold()
        if folded in _IGNORED:
            continue
        if folded in _WORDS:
            found.append((speaker or None, True, list(enumerate(entries, 1))))
        else:
            named = name.strip()
            found.append((None if folded in _UNNAMED else named, False, list(enumerate(entries, 1))))
    return found


def _make_segment(speaker: str | None, number: int, entry: Any, is_word: bool) -> Segment:
    start, end, label = entry
    where = f"tier {speaker or 'words'!r}, interval {number}"
    start_s, end_s = check_span(read_time(str(start), where), read_time(str(end), where), where)
    said = join_words([str(label)])
    words = (Word(said, start_s, end_s),) if is_word else ()
    return Segment(said, number, start_s, end_s, speaker, words=words)
