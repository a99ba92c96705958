"""Stage `human_review`: what people decided about a row is applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import pyarrow as pa

from bystander.schemas.engines import RowFault
from bystander.schemas.real_world import CUT_PAIR, REVIEWED_PAIR
from bystander.schemas.review import ReviewDecision, ReviewReason
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.tasks.stages.cut_clips import measure_overlap
from bystander.tasks.texts.request_forms import asks_or_requests
from bystander.tasks.texts.spoken_text import is_speakable
from bystander.tasks.texts.transcript_sentences import write_sentence

NAME = "human_review"
_TEXTS = ("primary_text", "third_party_text")


def human_review(rows: pa.Table, context: StageContext) -> StageOutput:  # noqa: ARG001
    """Reject what was rejected, and put right what was put right; texts and segments then go on so.

    Columns read: decision (a `schemas.review.ReviewDecision` as JSON, or null), undecided, the texts, duration_s.
    Written: review (null where nobody decided), primary_text, third_party_text, segments, overlap_s.

    Reject reasons: those of `schemas.review.ReviewReason`, with the note. undecided, conflict: nobody has decided, or
    annotators do not agree, and such rows are left out. edit_not_speakable: a text that was put right has signs that
    nobody says. edit_out_of_clip: so have segments that do not lie in the clip, or lack a speaker.
    """
    outcomes = [_apply(row) for row in rows.select(_USES).to_pylist()]
    return split_rows(NAME, rows, outcomes, REVIEWED_PAIR)


def _apply(row: Mapping[str, Any]) -> Mapping[str, Any] | RowFault:
    given: dict[str, Any] = {name: row[name] for name in (*_TEXTS, "segments", "overlap_s")}
    decision = None if row["decision"] is None else ReviewDecision.model_validate_json(row["decision"])
    if decision is None or decision.verdict == "conflict":
        if row["undecided"] == "kept":
            return {**given, "review": None}
        if decision is None:
            return RowFault("undecided", "no annotator has decided")
        return RowFault("conflict", ", ".join(f"{one}: {said.verdict}" for one, said in decision.annotators.items()))
    if decision.verdict == "reject":
        return RowFault(decision.reason or "other", decision.note or "")
    edits = decision.edits
    edited = []
    for name in _TEXTS:
        text = getattr(edits, name)
        if text is None:
            continue
        spoken = write_sentence(text, asks_or_requests(text))
        if not is_speakable(spoken):
            return RowFault("edit_not_speakable", f"{name}: {text}")
        given[name] = spoken
        edited.append(name)
    if edits.segments is not None:
        segments = [one.model_dump() for one in edits.segments]
        within = row["duration_s"] is not None and all(one["end_s"] <= row["duration_s"] + 1e-3 for one in segments)
        if not within or {one["speaker"] for one in segments} != {"primary", "third_party"}:
            return RowFault("edit_out_of_clip", f"{segments}")
        for one in segments:
            one["end_s"] = min(one["end_s"], row["duration_s"])
        given["segments"], given["overlap_s"] = segments, measure_overlap(segments)
        edited.append("segments")
    review = {
        "verdict": decision.verdict,
        "rule": decision.rule,
        "annotators": sorted(decision.annotators),
        "edited": edited,
    }
    return {**given, "review": review}


_USES = ("decision", "undecided", *_TEXTS, "duration_s", "segments", "overlap_s")

STAGE = Stage(
    name=NAME,
    version=1,
    reads=CUT_PAIR,
    writes=REVIEWED_PAIR,
    reasons=frozenset(get_args(ReviewReason)) | {"undecided", "conflict", "edit_not_speakable", "edit_out_of_clip"},
    run=human_review,
    uses=_USES,
)
