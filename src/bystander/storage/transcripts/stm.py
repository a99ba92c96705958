"""STM, NIST's list of segments: `recording channel speaker start end [<labels>] text`."""

from __future__ import annotations

import re

from bystander.storage.transcripts.segments import (
    Segment,
    Transcript,
    TranscriptError,
    check_span,
    is_speech,
    join_words,
    number_lines,
    read_time,
)

_ALTERNATIVES = re.compile(r"\{([^{}]*)\}")
_OPTIONAL = re.compile(r"\((\S{1,80}?)\)")
_IGNORED = ("ignore_time_segment_in_scoring", "inter_segment_gap")


def parse_stm(text: str) -> Transcript:
    """Parse an STM file; `;;` begins a comment.

    Of alternatives (`{ a / b }`) the first counts (`@` is none), words in parentheses are kept without them, and
    segments that are marked as not to be scored are left out.

    Raises:
        TranscriptError: names the line and what is wrong.
    """
    segments = []
    for line, content in number_lines(text):
        if content.startswith(";;"):
            continue
        fields = content.split(maxsplit=5)
        if len(fields) < 5:
            raise TranscriptError(
                f"line {line}: has {len(fields)} fields; a line of an STM file is "
                "'recording channel speaker start end [<labels>] text'"
            )
        recording, channel, speaker, start, end = fields[:5]
        start_s, end_s = check_span(
            read_time(start, f"line {line}, start"), read_time(end, f"line {line}, end"), f"line {line}"
        )
        said = fields[5] if len(fields) > 5 else ""
        if said.startswith("<"):
            said = said.partition(">")[2]
        said = _OPTIONAL.sub(r"\1", _ALTERNATIVES.sub(_take_first, said))
        if said.strip().casefold() in _IGNORED or not is_speech(said):
            continue
        segments.append(Segment(join_words([said]), line, start_s, end_s, speaker, channel, recording))
    return Transcript(tuple(segments))


def _take_first(match: re.Match[str]) -> str:
    first = re.split(r"\s/\s", match[1])[0].strip()
    return "" if first == "@" else first
