"""Supervisions of lhotse: JSONL, one segment a line.

Fields read: `recording_id`, `start` and `duration` in seconds, `text`, `speaker`; `channel` may be a number or a list.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from bystander.storage.corpora.utterances import Utterance, WrongFieldError, read_field, read_seconds, read_words


def read_lhotse(name: str, text: str) -> Iterator[Utterance]:
    """Yield the segments of a file; `name` stands in messages."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        place = f"{name}: line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            yield Utterance("", place, fault="is no JSON object")
            continue
        yield _read_row(row, place)


def is_lhotse(row: Any) -> bool:
    """Whether a JSON value looks like a supervision."""
    return isinstance(row, dict) and {"recording_id", "start", "duration"} <= row.keys()


def _read_row(row: Any, place: str) -> Utterance:
    recording = str(row.get("recording_id") or "") if isinstance(row, dict) else ""
    try:
        read_field(row, "recording_id")
        start_s = read_seconds(row, "start")
        duration = read_field(row, "duration")
        if isinstance(duration, bool) or not isinstance(duration, int | float):
            raise WrongFieldError(f"field 'duration' is {str(duration)[:40]!r}, no number of seconds")
        return Utterance(
            recording,
            place,
            str(read_field(row, "speaker")),
            start_s,
            round(start_s + duration, 6),
            read_words(row, "text"),
            _read_channel(row.get("channel")),
        )
    except WrongFieldError as fault:
        return Utterance(recording, place, fault=str(fault))


def _read_channel(value: Any) -> int | None:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
