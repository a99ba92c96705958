"""Transcripts of any format that `storage.transcripts` reads, one file a recording or a whole corpus in one.

There, a wrong line is a fault of the whole file. Here, STM and SegLST are read row by row, so that the rest goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from bystander.schemas.errors import InputError
from bystander.storage.corpora.utterances import Utterance
from bystander.storage.transcripts.json_segments import load_json, parse_seglst
from bystander.storage.transcripts.read_transcript import PARSERS, SEGLST, STM, detect_format
from bystander.storage.transcripts.segments import Segment, Transcript, TranscriptError, number_lines
from bystander.storage.transcripts.stm import parse_stm
from bystander.tasks.texts.transcript_marks import drop_marks

_TEXT = ("words", "text", "transcript")
_STAND_IN = "said"


def read_transcript_file(name: str, stem: str, text: str) -> Iterator[Utterance]:
    """Yield the segments of a file.

    Args:
        name: stands in messages; its ending tells the format.
        stem: the recording's id, where the format gives none.
        text: what is in it.

    Raises:
        InputError: it is of no format that is known, or broken as a whole.
    """
    try:
        form = detect_format(name, text)
        if form == STM:
            yield from _read_stm(name, stem, text)
        elif form == SEGLST:
            yield from _read_seglst(name, stem, text)
        else:
            for segment in PARSERS[form](text).segments:
                yield _convert(segment, f"{name}: line or interval {segment.line}", stem)
    except TranscriptError as exc:
        raise InputError(f"{name}: {exc}") from exc


def _read_stm(name: str, stem: str, text: str) -> Iterator[Utterance]:
    for number, line in number_lines(text):
        place = f"{name}: line {number}"
        try:
            fields = line.split(maxsplit=5)
            blank = " ".join([*fields[:5], _STAND_IN])
            yield from _read_one(parse_stm, line, blank, fields[5] if len(fields) > 5 else "", place, stem)
        except TranscriptError as exc:
            yield Utterance(line.split()[0], place, fault=_strip(str(exc)))


def _read_seglst(name: str, stem: str, text: str) -> Iterator[Utterance]:
    value = load_json(text)
    if isinstance(value, dict):
        value = value.get("segments", value.get("utterances", [value]))
    if not isinstance(value, list):
        raise TranscriptError("holds no list of segments", "transcript_unreadable")
    for number, record in enumerate(value, 1):
        place = f"{name}: segment {number}"
        if not isinstance(record, dict):
            yield Utterance(stem, place, fault="is no object with fields")
            continue
        try:
            said = next((record[key] for key in _TEXT if isinstance(record.get(key), str)), "")
            blank = {**record, **{key: _STAND_IN for key in _TEXT if isinstance(record.get(key), str)}}
            yield from _read_one(parse_seglst, json.dumps([record]), json.dumps([blank]), said, place, stem)
        except TranscriptError as exc:
            yield Utterance(stem, place, fault=_strip(str(exc)))


def _read_one(
    parse: Callable[[str], Transcript], text: str, blank: str, said: str, place: str, stem: str
) -> Iterator[Utterance]:
    """Yield the segments of one row.

    One in which nobody speaks, a laugh, is left out by the parsers; here it is rejected later, with its reason. `blank`
    is the row with a word instead of `said`.
    """
    segments = parse(text).segments
    for segment in segments or (() if drop_marks(said) or text.startswith(";;") else parse(blank).segments):
        utterance = _convert(segment, place, stem)
        if not segments:
            utterance.source_text = said
        yield utterance


def _convert(segment: Segment, place: str, stem: str) -> Utterance:
    recording = segment.recording or stem
    if segment.start_s is None or segment.end_s is None:
        return Utterance(recording, place, fault="has no times; who cuts in when cannot be told")
    channel = int(segment.channel) if segment.channel is not None and segment.channel.isdecimal() else None
    return Utterance(recording, place, segment.speaker, segment.start_s, segment.end_s, segment.text, channel)


def _strip(message: str) -> str:
    """Return a message without the number of the row in what was cut out for it."""
    return (
        message.removeprefix("line 1: ")
        .removeprefix("line 1, ")
        .removeprefix("segment 1: ")
        .removeprefix("segment 1, ")
    )
