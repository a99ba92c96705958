"""The Mississippi State transcripts of Switchboard: files of words (`-word.text`) and of utterances (`-trans.text`).

Lines are `sw2001A-ms98-a-0001 start end text`. The side of the call stands in the id.
"""

from __future__ import annotations

import re

from bystander.storage.transcripts.segments import (
    Segment,
    Transcript,
    TranscriptError,
    Word,
    check_span,
    group_words,
    join_words,
    number_lines,
    read_time,
)
from bystander.tasks.texts.transcript_marks import drop_marks

LINE = re.compile(r"^(sw\d+)([AB])-\S*-(\d+)\s+(\S+)\s+(\S+)(?:\s+(.*))?$", re.IGNORECASE)
_ASIDE = re.compile(r"<[be]_aside>", re.IGNORECASE)
_COINED = re.compile(r"\{([^{}]*)\}")
_VARIANT = re.compile(r"_\d+$")


def parse_ms_state(text: str) -> Transcript:
    """Parse a file of words or of utterances; which it is shows in whether every line holds one token.

    Raises:
        TranscriptError: names the line and what is wrong.
    """
    lines: list[Segment] = []
    utterances = set()
    single = True
    for line, content in number_lines(text):
        if content.startswith("#"):
            continue
        match = LINE.match(content)
        if match is None:
            raise TranscriptError(f"line {line}: {content[:60]!r} is not 'sw2001A-ms98-a-0001 start end text'")
        recording, side, number, start, end, said = match.groups()
        start_s, end_s = check_span(
            read_time(start, f"line {line}, start"), read_time(end, f"line {line}, end"), f"line {line}"
        )
        tokens = (said or "").split()
        single = single and len(tokens) <= 1
        utterances.add(number)
        lines.append(Segment(said or "", line, start_s, end_s, None, side.upper(), recording))
    if single and len(lines) > len(utterances):
        words = [
            Segment(
                spoken or "[silence]",
                word.line,
                word.start_s,
                word.end_s,
                None,
                word.channel,
                word.recording,
                (Word(spoken, word.start_s, word.end_s),),
            )
            for word in lines
            for spoken in [_clean(word.text)]
        ]
        return Transcript(tuple(group_words(words)))
    spoken_lines = [
        Segment(spoken, said.line, said.start_s, said.end_s, None, said.channel, said.recording)
        for said in lines
        for spoken in [join_words(_clean(token) for token in said.text.split())]
        if spoken
    ]
    return Transcript(tuple(spoken_lines))


def _clean(token: str) -> str:
    """Return what was said: `[laughter-yes]` is yes, `[splace/space]` space, `th[at]-` th-, `{huh}` huh, `a_1` a."""
    word = _COINED.sub(r"\1", _ASIDE.sub("", token))
    return _VARIANT.sub("", drop_marks(word))
