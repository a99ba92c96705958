"""What must hold of every finished SID row on its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from bystander.schemas.sid import BEGINNING, CATEGORIES, MIDDLE, SID_FINAL, SPEECH_CATEGORIES, UNINTERRUPTED
from bystander.schemas.text_tasks import BREAK_TAG
from bystander.storage.row_invariants import Fault, check_origin, find_nulls
from bystander.storage.sid_manifest import SidManifest

_TOLERANCE_S = 1e-3
"""Aligners work in frames: an end may be this far beyond the clip's last sample."""
_OF_SPEECH = (
    "language",
    "text",
    "text_with_break",
    "recording_id",
    "speaker",
    "turn_start_s",
    "context_text",
    "overlap_s",
    "transcript_source",
    "tag_agreement",
    "aligner",
    "alignment_is_fallback",
)
"""Filled in a row of speech, null in silence and noise."""


def check_sid_row(row: Mapping[str, Any], split: str, manifest: SidManifest) -> Iterator[Fault]:
    """Yield what is wrong with a row's fields; audio is not decoded."""
    missing = list(find_nulls(row, SID_FINAL))
    yield from missing
    if missing:
        return
    yield from check_origin(row, split, manifest)
    if row["category"] not in CATEGORIES:
        yield "category", f"is {row['category']!r}; there are {', '.join(CATEGORIES)}"
        return
    yield from _check_break(row)
    if row["category"] in SPEECH_CATEGORIES:
        yield from ((name, f"is null in a row of {row['category']}") for name in _OF_SPEECH if row[name] is None)
        yield from _check_words(row)
        yield from _check_tag(row)
    else:
        yield from ((name, f"is filled in a row of {row['category']}") for name in _OF_SPEECH if row[name] is not None)


def _check_break(row: Mapping[str, Any]) -> Iterator[Fault]:
    category, at, index = row["category"], row["break_time_s"], row["break_word_index"]
    interrupted = category in (BEGINNING, MIDDLE)
    if row["total_nonbreak"] == interrupted:
        yield "total_nonbreak", f"is {row['total_nonbreak']} in a row of {category}"
    if not math.isfinite(at) or not -_TOLERANCE_S <= at <= row["duration_s"] + _TOLERANCE_S:
        yield "break_time_s", f"is {at} s in a clip of {row['duration_s']} s"
    if not interrupted:
        if at != row["duration_s"]:
            yield "break_time_s", f"is {at} s; without a break it is the duration, {row['duration_s']} s"
        if index is not None:
            yield "break_word_index", f"is {index} in a row of {category}"
    elif index is None:
        yield "break_word_index", f"is null in a row of {category}"
    elif (index == 0) != (category == BEGINNING):
        yield "category", f"is {category}, but the break is at word {index}"


def _check_words(row: Mapping[str, Any]) -> Iterator[Fault]:
    words, index = row["words"], row["break_word_index"]
    if not words:
        yield "words", "are missing"
        return
    before = 0.0
    for i, word in enumerate(words):
        start, end = word["start_s"], word["end_s"]
        if not before - _TOLERANCE_S <= start < end <= row["duration_s"] + _TOLERANCE_S:
            yield "words", f"{word['word']!r} (word {i}), {start} s to {end} s, is out of order or outside the clip"
            return
        before = start
    if index is not None and not 0 <= index < len(words):
        yield "break_word_index", f"is {index}, but there are {len(words)} words"
        return
    phones = [phone for phone in row["phones"] if phone["word_index"] == index]
    if index is not None:
        first = min((phone["start_s"] for phone in phones), default=words[index]["start_s"])
        if abs(first - row["break_time_s"]) > _TOLERANCE_S:
            yield "break_time_s", f"is {row['break_time_s']} s, the word with new intent begins at {first} s"


def _check_tag(row: Mapping[str, Any]) -> Iterator[Fault]:
    tagged, text = row["text_with_break"] or "", row["text"] or ""
    tags = tagged.count(BREAK_TAG)
    if tags != (0 if row["category"] == UNINTERRUPTED else 1):
        yield "text_with_break", f"has {tags} break tags in a row of {row['category']}"
    if "".join(tagged.replace(BREAK_TAG, "").split()) != "".join(text.split()):
        yield "text_with_break", "is not the text with a break tag"
    if row["tag_agreement"] is not None and not 0 < row["tag_agreement"] <= 1:
        yield "tag_agreement", f"is {row['tag_agreement']}, outside (0, 1]"
