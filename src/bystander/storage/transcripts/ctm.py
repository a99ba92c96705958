"""CTM, NIST's list of timed words: `recording channel start duration word [confidence]`."""

from __future__ import annotations

from bystander.storage.transcripts.segments import (
    Segment,
    Transcript,
    TranscriptError,
    Word,
    check_span,
    group_words,
    number_lines,
    read_time,
)


def parse_ctm(text: str) -> Transcript:
    """Parse a CTM file; `;;` begins a comment.

    Of alternatives (`<ALT_BEGIN> ... <ALT> ... <ALT_END>`) the first counts. Words are joined to utterances by their
    pauses.

    Raises:
        TranscriptError: names the line and what is wrong.
    """
    words: list[Segment] = []
    alternative = 0
    for line, content in number_lines(text):
        if content.startswith(";;"):
            continue
        fields = content.split()
        mark = fields[4].upper() if len(fields) > 4 else ""
        if mark in ("<ALT_BEGIN>", "<ALT>", "<ALT_END>"):
            alternative = {"<ALT_BEGIN>": 1, "<ALT>": alternative + 1, "<ALT_END>": 0}[mark]
            continue
        if alternative > 1:
            continue
        if len(fields) < 5:
            raise TranscriptError(
                f"line {line}: has {len(fields)} fields; a line of a CTM file is "
                "'recording channel start duration word [confidence]'"
            )
        recording, channel, start, duration, word = fields[:5]
        start_s = read_time(start, f"line {line}, start")
        end_s = start_s + read_time(duration, f"line {line}, duration")
        check_span(start_s, end_s, f"line {line}")
        score = _read_score(fields[5]) if len(fields) > 5 else None
        timed = Word(word, start_s, end_s, score)
        words.append(Segment(word, line, start_s, end_s, None, channel, recording, (timed,)))
    return Transcript(tuple(group_words(words)))


def _read_score(field: str) -> float | None:
    try:
        score = float(field)
    except ValueError:
        return None  # NA, or the type of the word
    return score if score == score and abs(score) != float("inf") else None
