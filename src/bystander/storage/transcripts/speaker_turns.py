"""Plain text with one speaker turn a line, with times or without.

Lines may be `A: text`, and with times `[12.3 15.1] A: text`, `12.3 15.1 A: text` (Fisher), `A 12.3 15.1 text`,
`A [12.3 - 15.1]: text` or `[00:12.3 --> 00:15.1] A: text`.
"""

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

_TIME = r"-?(?:\d+:)*\d+(?:[.,]\d+)?"
_SPAN = rf"[\[(]?\s*(?P<start>{_TIME})\s*s?(?:\s*(?:-->|--|–|—|-|,|\.\.)\s*|\s+)(?P<end>{_TIME})\s*s?\s*[\])]?"
_NAME = r"(?P<speaker>[^\s:：\[\]()][^:：\[\]()\t]{0,39}?)"
_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"^{_SPAN}\s*:?\s*{_NAME}\s*(?::\s|：)\s*(?P<text>.*)$",
        rf"^{_SPAN}\s*:?\s*{_NAME}\s*:(?P<text>)$",
        rf"^{_NAME}\s*[:：]?\s+{_SPAN}\s*(?::?\s|：)\s*(?P<text>.*)$",
        rf"^{_NAME}\s*:?\s+{_SPAN}\s*:?(?P<text>)$",
    )
)
_UNTIMED = re.compile(rf"^{_NAME}\s*[:：]\s*(?P<text>.*)$")


def parse_speaker_turns(text: str) -> Transcript:
    """Parse turns; `#` and `;;` begin comments, and a line without a speaker goes on the turn before it if untimed.

    Either all turns have times, or none.

    Raises:
        TranscriptError: names the line and what is wrong.
    """
    segments: list[Segment] = []
    for line, content in number_lines(text):
        if content.startswith(("#", ";;")):
            continue
        segment = _read_line(line, content)
        if segment is None and segments and segments[-1].start_s is None:
            last = segments[-1]
            segments[-1] = Segment(join_words([last.text, content]), last.line, speaker=last.speaker)
            continue
        if segment is None:
            raise TranscriptError(
                f"line {line}: {content[:60]!r} is no turn; give '[start end] A: text', or 'A: text' without times",
                "transcript_unreadable" if not segments else "transcript_invalid",
            )
        segments.append(segment)
    if len({segment.start_s is None for segment in segments}) > 1:
        bare = next(segment for segment in segments if segment.start_s is None)
        raise TranscriptError(f"line {bare.line}: has no times, where other lines have them; give all or none")
    return Transcript(tuple(segment for segment in segments if is_speech(segment.text)))


def _read_line(line: int, content: str) -> Segment | None:
    for form in _FORMS:
        if match := form.match(content):
            start_s, end_s = check_span(
                read_time(match["start"], f"line {line}, start"),
                read_time(match["end"], f"line {line}, end"),
                f"line {line}",
            )
            return Segment(join_words([match["text"]]), line, start_s, end_s, match["speaker"].strip())
    if match := _UNTIMED.match(content):
        return Segment(join_words([match["text"]]), line, speaker=match["speaker"].strip())
    return None
