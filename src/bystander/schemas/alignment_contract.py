"""Whether what an aligner returned is what it promised."""

from __future__ import annotations

import math

from bystander.schemas.alignment import AlignedPhone, AlignedWord, AlignmentReply, AlignmentRequest
from bystander.schemas.engines import RowFault

_TOLERANCE_S = 1e-6


def find_broken_promise(request: AlignmentRequest, reply: AlignmentReply) -> RowFault | None:
    """Return the first way in which a reply is not one entry a word, in order and inside the clip, or None.

    Its reason is `alignment_incomplete`.
    """
    if len(reply.words) != len(request.words):
        return _fault(f"{len(reply.words)} words for {len(request.words)}")
    duration_s = len(request.samples) / request.sampling_rate
    earlier_s = 0.0
    for index, (asked, word) in enumerate(zip(request.words, reply.words, strict=True)):
        if word.word != asked:
            return _fault(f"word {index} is {word.word!r}, not {asked!r}")
        if word.score is not None and not math.isfinite(word.score):
            return _fault(f"word {index}, {asked!r}: its score is no number")
        problem = _find_misplaced(word, earlier_s, duration_s) or _find_misplaced_phone(word)
        if problem:
            return _fault(f"word {index}, {asked!r}: {problem}")
        earlier_s = word.start_s
    return None


def _fault(detail: str) -> RowFault:
    return RowFault("alignment_incomplete", detail)


def _find_misplaced(span: AlignedWord | AlignedPhone, not_before_s: float, not_after_s: float) -> str | None:
    if not (math.isfinite(span.start_s) and math.isfinite(span.end_s)):
        return "its times are no numbers"
    if span.end_s <= span.start_s:
        return f"it ends at {span.end_s:.3f} s and starts at {span.start_s:.3f} s"
    if span.start_s < not_before_s - _TOLERANCE_S:
        return f"it starts at {span.start_s:.3f} s, before {not_before_s:.3f} s"
    if span.end_s > not_after_s + _TOLERANCE_S:
        return f"it ends at {span.end_s:.3f} s, after {not_after_s:.3f} s"
    return None


def _find_misplaced_phone(word: AlignedWord) -> str | None:
    if word.phones and abs(word.phones[0].start_s - word.start_s) > _TOLERANCE_S:
        return "its first phone does not start with it"
    earlier_s = word.start_s
    for phone in word.phones:
        problem = _find_misplaced(phone, earlier_s, word.end_s)
        if problem:
            return f"phone {phone.phone}: {problem}"
        earlier_s = phone.start_s
    return None
