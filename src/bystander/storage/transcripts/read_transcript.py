"""Which format a transcript has, and its segments."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping

from bystander.storage.transcripts.ctm import parse_ctm
from bystander.storage.transcripts.json_segments import load_json, parse_seglst, parse_whisperx
from bystander.storage.transcripts.ms_state import LINE, parse_ms_state
from bystander.storage.transcripts.segments import Transcript, TranscriptError, number_lines
from bystander.storage.transcripts.speaker_turns import parse_speaker_turns
from bystander.storage.transcripts.stm import parse_stm
from bystander.storage.transcripts.text_grid import parse_text_grid

MS_STATE, TEXT_GRID, CTM, STM, SEGLST, WHISPERX, TURNS = (
    "ms_state",
    "textgrid",
    "ctm",
    "stm",
    "seglst",
    "whisperx",
    "turns",
)
PARSERS: Mapping[str, Callable[[str], Transcript]] = {
    MS_STATE: parse_ms_state,
    TEXT_GRID: parse_text_grid,
    CTM: parse_ctm,
    STM: parse_stm,
    SEGLST: parse_seglst,
    WHISPERX: parse_whisperx,
    TURNS: parse_speaker_turns,
}
"""Parser of each format; where several transcripts of a recording lie side by side, the first of these counts."""

SUFFIXES = (".textgrid", ".ctm", ".stm", ".seglst", ".json", ".jsonl", ".text", ".txt")
"""Endings of files that are looked at as transcripts."""
MAX_BYTES = 256 << 20
"""A longer file is no transcript of one recording, nor of a corpus of them."""

_NUMBER = re.compile(r"^\d+(?:\.\d+)?$")


def decode_text(data: bytes) -> str:
    """Return the text of a file: UTF-8, or UTF-16 with its mark.

    Raises:
        TranscriptError: it is neither, or no text at all.
    """
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as exc:
        line = data[: exc.start].count(b"\n") + 1
        raise TranscriptError(
            f"line {line}: is neither UTF-8 nor UTF-16; save it as UTF-8", "transcript_unreadable"
        ) from exc
    if "\0" in text:
        raise TranscriptError("holds NUL characters: no text, or UTF-16 without its mark", "transcript_unreadable")
    return text


def name_format(name: str) -> str | None:
    """Return the format that a file's name alone shows, None where its content must be looked at."""
    folded = name.casefold()
    if folded.endswith(".textgrid"):
        return TEXT_GRID
    if folded.endswith((".ctm", ".stm")):
        return folded[-3:]
    if folded.endswith((".seglst", ".seglst.json", ".jsonl")):
        return SEGLST
    if re.search(r"-ms98-.*\.text$", folded):
        return MS_STATE
    return None


def detect_format(name: str, text: str) -> str:
    """Return the format of a transcript: a key of `PARSERS`."""
    named = name_format(name)
    if named is not None:
        return named
    if "ooTextFile" in text[:200]:
        return TEXT_GRID
    if text.lstrip()[:1] in ("{", "["):
        try:
            value = load_json(text)
        except TranscriptError:
            if name.casefold().endswith(".json"):
                raise
        else:
            return WHISPERX if isinstance(value, Mapping) and "segments" in value else SEGLST
    lines = (line for _, line in number_lines(text) if not line.startswith((";;", "#")))
    first = next(lines, "")
    fields = first.split()
    if LINE.match(first):
        return MS_STATE
    if first[:1] in ("[", "(") or any(field.endswith(":") for field in fields[:3]):
        return TURNS
    if len(fields) >= 5 and all(map(_NUMBER.match, fields[3:5])) and not _NUMBER.match(fields[2]):
        return STM
    # Turns may begin with speaker, start and end too; a CTM line has a second field that is a channel.
    if 5 <= len(fields) <= 8 and all(map(_NUMBER.match, fields[2:4])) and len(fields[1]) <= 2:
        return CTM
    return TURNS


def parse_transcript(name: str, data: bytes, form: str | None = None) -> tuple[str, Transcript]:
    """Return the format and the segments of a transcript; `form` forces one of `PARSERS`.

    Raises:
        TranscriptError: it cannot be read, or a line or field of it is wrong.
    """
    text = decode_text(data)
    chosen = form or detect_format(name, text)
    return chosen, PARSERS[chosen](text)
