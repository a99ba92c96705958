"""Stage `align_words`: when each word of a turn is said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.alignment import ALIGNER_REASONS, Aligner, AlignmentReply, AlignmentRequest
from bystander.schemas.alignment_contract import find_broken_promise
from bystander.schemas.arrays import list_rows
from bystander.schemas.engines import RowFault
from bystander.schemas.sid import ALIGNED, TAGGED
from bystander.schemas.sid_params import AlignWords
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.tasks.audio.coding import decode_audio

NAME = "align_words"
_USES = ("id", "language", "audio", "duration_s", "speech", "words", "break_word_index")
_BATCH_ROWS = 256
"""Decoded audio of so many rows is held at once; aligners that start a program for every batch want many."""

Row = Mapping[str, Any]
Answer = AlignmentReply | RowFault


def align_words(rows: pa.Table, context: StageContext) -> StageOutput:
    """Align each turn's words with its audio, and have a second aligner check it where there is one.

    Columns read: id, language, audio, duration_s, speech, words, break_word_index.
    Written: timed_words, phones, aligner, alignment_is_fallback, alignment_score; second_aligner and
    aligner_disagreement_s (seconds between the two on the start of the break word, of the word on which they differ
    most where none breaks; both null where there is no second aligner or it has no model of the language).

    Reject reasons, besides `ALIGNER_REASONS`:
        alignment_incomplete: also where an aligner breaks its promise of one entry a word, in order, inside the clip.
        words_far_from_speech: a word lies more than `max_distance_from_speech_s` from all speech of the channel.
        fallback_not_allowed: only a recogniser's word times are to be had, and `allow_fallback` is off.
        second_aligner_fault: `max_disagreement_s` is set and the second aligner has no alignment to compare.
        aligners_disagree: the two differ by more than `max_disagreement_s`.

    Raises:
        EngineError: an aligner as a whole failed.
    """
    outcomes: list[dict[str, Any] | RowFault] = []
    used = rows.select(_USES)
    for start in range(0, len(rows), _BATCH_ROWS):
        outcomes += _align_batch(list_rows(used.slice(start, _BATCH_ROWS)), context)
    return split_rows(NAME, rows, outcomes, ALIGNED)


def _align_batch(rows: Sequence[Row], context: StageContext) -> Iterator[dict[str, Any] | RowFault]:
    params = cast(AlignWords, context.params)
    second = context.second_aligner
    requests = [_make_request(row) for row in rows]
    firsts = [
        answer if isinstance(answer, RowFault) else _find_unfit(answer, row, params) or answer
        for answer, row in zip(_ask(context.aligner, requests), rows, strict=True)
    ]
    seconds: list[Answer | None] = [None] * len(rows)
    if second is not None:
        # What the first could not align is lost already: the second is not asked for it.
        places = [i for i, answer in enumerate(firsts) if isinstance(answer, AlignmentReply)]
        for place, answer in zip(places, _ask(second, [requests[i] for i in places]), strict=True):
            seconds[place] = answer
    for row, first, other in zip(rows, firsts, seconds, strict=True):
        if isinstance(first, RowFault):
            yield first
            continue
        compared = _compare(row, first, other, second, params)
        yield compared if isinstance(compared, RowFault) else {**_describe(first, context.aligner), **compared}


def _make_request(row: Row) -> AlignmentRequest:
    samples, rate = decode_audio(row["audio"]["bytes"])
    return AlignmentRequest(row["id"], samples, rate, tuple(row["words"]), row["language"])


def _ask(aligner: Aligner, requests: Sequence[AlignmentRequest]) -> list[Answer]:
    if not requests:
        return []
    return [
        answer if isinstance(answer, RowFault) else find_broken_promise(request, answer) or answer
        for request, answer in zip(requests, aligner.align(requests), strict=True)
    ]


def _find_unfit(reply: AlignmentReply, row: Row, params: AlignWords) -> RowFault | None:
    if reply.is_fallback and not params.allow_fallback:
        return RowFault("fallback_not_allowed", "no aligner but a recogniser's word times, which are not allowed here")
    for index, word in enumerate(reply.words):
        distance_s = min(
            (max(span["start_s"] - word.end_s, word.start_s - span["end_s"], 0.0) for span in row["speech"]),
            default=None,
        )
        if distance_s is None or distance_s > params.max_distance_from_speech_s:
            where = "there is no speech" if distance_s is None else f"the nearest speech is {distance_s:.2f} s away"
            return RowFault("words_far_from_speech", f"word {index}, {word.word!r}, at {word.start_s:.2f} s: {where}")
    return None


def _compare(
    row: Row, first: AlignmentReply, other: Answer | None, aligner: Aligner | None, params: AlignWords
) -> dict[str, Any] | RowFault:
    """Return the columns that the second aligner's answer gives, or why it speaks against the row."""
    unasked = isinstance(other, RowFault) and other.reason == "language_not_aligned"
    if aligner is None or other is None or unasked:
        return {"second_aligner": None, "aligner_disagreement_s": None}
    if isinstance(other, RowFault):
        if params.max_disagreement_s is not None:
            return RowFault("second_aligner_fault", f"{aligner.identity.name}: {other.reason}: {other.detail}")
        return {"second_aligner": aligner.identity.name, "aligner_disagreement_s": None}
    distances = [abs(a.start_s - b.start_s) for a, b in zip(first.words, other.words, strict=True)]
    place = row["break_word_index"]
    if place is None:
        place = max(range(len(distances)), key=distances.__getitem__)
    distance_s = distances[place]
    if params.max_disagreement_s is not None and distance_s > params.max_disagreement_s:
        word = first.words[place]
        return RowFault(
            "aligners_disagree",
            f"word {place}, {word.word!r}: {word.start_s:.3f} s and {other.words[place].start_s:.3f} s, "
            f"{params.max_disagreement_s:g} s apart at most",
        )
    return {"second_aligner": other.aligner or aligner.identity.name, "aligner_disagreement_s": distance_s}


def _describe(reply: AlignmentReply, aligner: Aligner) -> dict[str, Any]:
    return {
        "timed_words": [
            {
                "word": word.word,
                "start_s": word.start_s,
                "end_s": word.end_s,
                "score": word.score,
                "in_vocabulary": word.in_vocabulary,
            }
            for word in reply.words
        ],
        "phones": [
            {"phone": phone.phone, "start_s": phone.start_s, "end_s": phone.end_s, "word_index": index}
            for index, word in enumerate(reply.words)
            for phone in word.phones
        ],
        "aligner": reply.aligner or aligner.identity.name,
        "alignment_is_fallback": reply.is_fallback,
        "alignment_score": reply.score,
    }


STAGE = Stage(
    name=NAME,
    version=1,
    reads=TAGGED,
    writes=ALIGNED,
    reasons=ALIGNER_REASONS
    | {"words_far_from_speech", "fallback_not_allowed", "second_aligner_fault", "aligners_disagree"},
    run=align_words,
    params_type=AlignWords,
    engines=("aligner",),
    optional_engines=("second_aligner",),
    uses=_USES,
)
