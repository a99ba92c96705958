"""Transcripts in JSON: SegLST and its like (a list of segments), and the results of WhisperX or Whisper."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from bystander.storage.transcripts.segments import (
    Segment,
    Transcript,
    TranscriptError,
    Word,
    check_span,
    is_speech,
    join_words,
    number_lines,
    read_time,
)

_RECORDING = ("session_id", "recording_id", "session", "recording")
_SPEAKER = ("speaker", "speaker_id", "spk")
_CHANNEL = ("channel", "channel_id")
_START = ("start_time", "start", "start_s", "begin")
_END = ("end_time", "end", "end_s")
_DURATION = ("duration", "dur")
_TEXT = ("words", "text", "transcript")
_SCORE = ("score", "probability", "confidence")
_UNSPACED = frozenset({"zh", "ja", "yue"})


def load_json(text: str) -> Any:
    """Return the value of a JSON file, or the list of a JSONL file's values.

    Raises:
        TranscriptError: it is neither; names the line.
    """
    try:
        return json.loads(text)
    except RecursionError as exc:
        raise TranscriptError("is nested too deeply", "transcript_unreadable") from exc
    except ValueError as first:
        lines = list(number_lines(text))
        try:
            # Only a file whose first line is a whole value of its own is JSONL.
            json.loads(lines[0][1])
        except (ValueError, IndexError, RecursionError):
            raise TranscriptError(f"is not valid JSON ({first})", "transcript_unreadable") from first
        values = []
        for number, line in lines:
            try:
                values.append(json.loads(line))
            except (ValueError, RecursionError) as exc:
                raise TranscriptError(f"line {number}: is not valid JSON ({exc})") from exc
        return values


def parse_seglst(text: str) -> Transcript:
    """Parse a list of segments: SegLST (`session_id`, `speaker`, `start_time`, `end_time`, `words`) and its like.

    A segment may give `duration` instead of its end, `channel`, `text` instead of `words`, and a list of timed words.

    Raises:
        TranscriptError: names the segment and field and what is wrong.
    """
    value = load_json(text)
    if isinstance(value, Mapping):
        value = value.get("segments", value.get("utterances", [value]))
    return Transcript(tuple(segment for segment, _ in _read_segments(value)))


def parse_whisperx(text: str) -> Transcript:
    """Parse a result of WhisperX or Whisper: `segments` with `start`, `end`, `text`, and `words` that may have times.

    A segment whose words have different speakers is cut where the speaker changes.

    Raises:
        TranscriptError: names the segment and field and what is wrong.
    """
    value = load_json(text)
    if not isinstance(value, Mapping) or "segments" not in value:
        raise TranscriptError("has no field 'segments', which a result of WhisperX has", "transcript_unreadable")
    language = value.get("language")
    language = language if isinstance(language, str) else None
    separator = "" if language in _UNSPACED else " "
    segments = [
        part
        for segment, speakers in _read_segments(value["segments"])
        for part in _cut_at_speakers(segment, speakers, separator)
    ]
    return Transcript(tuple(segments), language)


def _cut_at_speakers(segment: Segment, speakers: list[str | None], separator: str) -> Iterator[Segment]:
    named = [speaker or segment.speaker for speaker in speakers]
    if len(set(named)) < 2:
        yield replace(segment, speaker=named[0]) if named else segment
        return
    last_end = segment.start_s
    for speaker, items in groupby(zip(named, segment.words, strict=True), key=lambda item: item[0]):
        words = tuple(word for _, word in items)
        times = [time for word in words for time in (word.start_s, word.end_s) if time is not None]
        start_s, end_s = (min(times), max(times)) if times else (last_end, last_end)
        last_end = end_s
        said = join_words([separator.join(word.word for word in words)])
        yield replace(segment, speaker=speaker, words=words, text=said, start_s=start_s, end_s=end_s)


def _read_segments(value: Any) -> Iterator[tuple[Segment, list[str | None]]]:
    """Yield each segment with speech, and the speaker of each of its words."""
    if not isinstance(value, list):
        raise TranscriptError("holds no list of segments", "transcript_unreadable")
    for number, record in enumerate(value, 1):
        where = f"segment {number}"
        if not isinstance(record, Mapping):
            raise TranscriptError(f"{where}: is no object with fields")
        start_s, end_s = _read_span(record, where)
        listed = record.get("words")
        words, speakers = _read_words(listed, where) if isinstance(listed, list) else ((), [])
        said = next((record[key] for key in _TEXT if isinstance(record.get(key), str)), None)
        if said is None and words:
            said = " ".join(word.word for word in words)
        if said is None:
            raise TranscriptError(f"{where}: has no text in {', '.join(_TEXT)}")
        if not is_speech(said):
            continue
        yield (
            Segment(
                join_words([said]),
                number,
                start_s,
                end_s,
                _read_label(record, _SPEAKER),
                _read_label(record, _CHANNEL),
                _read_label(record, _RECORDING),
                words,
            ),
            speakers,
        )


def _read_words(listed: list[Any], where: str) -> tuple[tuple[Word, ...], list[str | None]]:
    words, speakers = [], []
    for number, record in enumerate(listed, 1):
        here = f"{where}, word {number}"
        if not isinstance(record, Mapping):
            raise TranscriptError(f"{here}: is no object with fields")
        word = next((record[key] for key in ("word", "text") if isinstance(record.get(key), str)), None)
        if word is None:
            raise TranscriptError(f"{here}: has no text in its field 'word'")
        if not word.strip():
            continue
        start_s, end_s = _read_span(record, here, may_be_half=True)
        score = next((record[key] for key in _SCORE if isinstance(record.get(key), (int, float))), None)
        words.append(Word(word.strip(), start_s, end_s, None if score is None else float(score)))
        speakers.append(_read_label(record, _SPEAKER))
    return tuple(words), speakers


def _read_span(record: Mapping[str, Any], where: str, may_be_half: bool = False) -> tuple[float | None, float | None]:
    start, end = _read_number(record, _START, where), _read_number(record, _END, where)
    if end is None and start is not None:
        duration = _read_number(record, _DURATION, where)
        end = None if duration is None else start + duration
    if start is not None and end is not None:
        return check_span(start, end, where)
    if (start is None) != (end is None) and not may_be_half:
        wanted = _START if start is None else (*_END, *_DURATION)
        raise TranscriptError(f"{where}: has one time of two; none of {', '.join(wanted)} is there")
    return None, None


def _read_number(record: Mapping[str, Any], names: tuple[str, ...], where: str) -> float | None:
    for name in names:
        value = record.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise TranscriptError(f"{where}, field {name!r}: is no number")
        return read_time(str(value), f"{where}, field {name!r}")
    return None


def _read_label(record: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    for name in names:
        value = record.get(name)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, (str, int)) and str(value).strip():
            return str(value).strip()
    return None
