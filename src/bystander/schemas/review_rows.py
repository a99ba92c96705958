"""What a reviewer sees of a row, whichever kind of build it is of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bystander.schemas.review import ReviewedSegment, ReviewKind, RowEdits
from bystander.schemas.text_tasks import BREAK_TAG

TEXT_TITLES = {"primary_text": "Primary speaker", "third_party_text": "Third party", "text_with_break": "Text"}
_LIGHT = ("id", "split", "label", "category", "scenario", "language", "duration_s", "reject_stage", "reject_reason")
_FACTS = (
    ("Kind", "kind"),
    ("Timing", "timing"),
    ("Reply", "reply"),
    ("Heard, primary", "primary_recognised"),
    ("Heard, third party", "third_party_recognised"),
    ("The other speaker", "context_text"),
    ("Licence", "licence"),
    ("Corpus", "corpus"),
    ("Recording", "recording"),
    ("Source", "source"),
    ("Rejected by", "reject_stage"),
    ("Reject reason", "reject_reason"),
    ("Detail", "reject_detail"),
)


@dataclass(frozen=True, slots=True)
class ListedRow:
    """A row in the list of rows. `label` is a TPI row's label or a SID row's category."""

    id: str
    split: str
    label: str
    scenario: str
    language: str
    duration_s: float
    reject_reason: str = ""
    """Why a stage rejected it; empty for a row of the build."""


def list_light_columns(names: list[str]) -> list[str]:
    """Return those of a file's columns that `list_row` reads."""
    return [name for name in _LIGHT if name in names]


def list_row(row: Mapping[str, Any]) -> ListedRow:
    """Return a row's entry in the list, from its light columns."""
    rejected = row.get("reject_reason") or ""
    return ListedRow(
        id=row["id"],
        split="rejects" if rejected else row.get("split") or "",
        label=row.get("label") or (row.get("category") or "" if row.get("scenario") is None else ""),
        scenario=row.get("scenario") or "",
        language=row.get("language") or "",
        duration_s=row.get("duration_s") or 0.0,
        reject_reason=f"{row.get('reject_stage')}: {rejected}" if rejected else "",
    )


def read_values(row: Mapping[str, Any], kind: ReviewKind) -> RowEdits:
    """Return a row's own values of what can be put right, unchecked, since a build may hold what no edit may.

    The break's time is null in a row without speech.
    """
    if kind == "sid":
        text = row.get("text_with_break") or None
        return RowEdits.model_construct(text_with_break=text, break_time_s=row["break_time_s"] if text else None)
    segments = tuple(ReviewedSegment.model_construct(**segment) for segment in row.get("segments") or ())
    texts = {name: row.get(name) or None for name in ("primary_text", "third_party_text")}
    return RowEdits.model_construct(**texts, segments=segments or None)


def describe_row(row: Mapping[str, Any], kind: ReviewKind) -> dict[str, Any]:
    """Return what the page shows of a row, as JSON values; the audio comes by itself."""
    values = read_values(row, kind)
    text = row.get("text") or "" if kind == "sid" else ""
    words = _list_words(row)
    return {
        "id": row["id"],
        "duration_s": row["duration_s"],
        "texts": [
            {"field": field, "title": title, "text": getattr(values, field)}
            for field, title in TEXT_TITLES.items()
            if getattr(values, field) is not None
        ],
        "segments": [segment.model_dump() for segment in values.segments or ()],
        "break_time_s": values.break_time_s,
        "has_break": values.text_with_break is not None and BREAK_TAG in values.text_with_break,
        "text": text,
        "words": [word | {"at": at} for word, at in zip(words, _find_words(text, words), strict=True)],
        "context": _find_context(row),
        "facts": [
            [name, str(row[column])]
            for name, column in _FACTS
            if row.get(column) not in (None, "") and not isinstance(row[column], (bytes, dict, list))
        ],
    }


def _list_words(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Words with their times, where the row has any."""
    words = row.get("timed_words") or row.get("words") or ()
    return [
        {"word": word["word"], "start_s": word["start_s"], "end_s": word["end_s"], "speaker": word.get("speaker")}
        for word in words
        if isinstance(word, Mapping) and word.get("start_s") is not None and word.get("end_s") is not None
    ]


def _find_words(text: str, words: list[dict[str, Any]]) -> list[int | None]:
    """Return where each word begins in the text, in UTF-16 units as browsers count; null from the first that is not."""
    found: list[int | None] = []
    at = 0
    for word in words:
        place = text.find(word["word"], at) if at >= 0 else -1
        at = place + len(word["word"]) if place >= 0 else -1
        found.append(len(text[:place].encode("utf-16-le")) // 2 if place >= 0 else None)
    return found


def _find_context(row: Mapping[str, Any]) -> dict[str, float] | None:
    """Return when the other speaker of a SID row talks, within the clip."""
    start, end = row.get("context_start_s"), row.get("context_end_s")
    if start is None or end is None or end <= 0:
        return None
    return {"start_s": max(start, 0.0), "end_s": min(end, row["duration_s"])}
