"""Friends-MMC: JSON, a list of conversations, each a list of turns.

Fields of a turn that are read: `speaker`, `content`, and `video` (or `frame`), `s01e01-001196-001272`: episode, first
and last frame of the video. An episode is one recording. The windows of the published files repeat turns of each other;
each counts once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from bystander.schemas.errors import InputError
from bystander.storage.corpora.utterances import Utterance, WrongFieldError, read_field, read_words

_SPAN = re.compile(r"(s\d+e\d+)[-_/](\d+)[-_](\d+)(?:\.\w+)?", re.IGNORECASE)


def read_friends_mmc(name: str, text: str, frames_per_s: float) -> Iterator[Utterance]:
    """Yield the turns of a file; `name` stands in messages, `frames_per_s` turns frames into seconds.

    Raises:
        InputError: it is no list of conversations.
    """
    try:
        conversations = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise InputError(
            f"{name}: is no JSON ({exc}); Friends-MMC has files such as 5_turns/train-metadata.json"
        ) from exc
    if not isinstance(conversations, list):
        raise InputError(f"{name}: is no list of conversations, as Friends-MMC has it")
    for number, turns in enumerate(conversations, 1):
        where = f"{name}: conversation {number}"
        if not isinstance(turns, list):
            yield Utterance("", where, fault="is no list of turns")
            continue
        for position, turn in enumerate(turns, 1):
            yield _read_turn(turn, f"{where}, turn {position}", frames_per_s)


def is_friends_mmc(value: Any) -> bool:
    """Whether a JSON value looks like a file of Friends-MMC."""
    first = value[0] if isinstance(value, list) and value else None
    turn = first[0] if isinstance(first, list) and first else None
    return isinstance(turn, dict) and {"speaker", "content"} <= turn.keys()


def _read_turn(turn: Any, place: str, frames_per_s: float) -> Utterance:
    recording = ""
    try:
        speaker, content = str(read_field(turn, "speaker")), read_words(turn, "content")
        span = next((match for key in ("video", "frame") if (match := _SPAN.fullmatch(str(turn.get(key, ""))))), None)
        if span is None:
            raise WrongFieldError("fields 'video' and 'frame' name no episode and frames (s01e01-001196-001272)")
        recording = span[1].lower()
        first, last = int(span[2]), int(span[3])
        return Utterance(
            recording, place, speaker, round(first / frames_per_s, 6), round(last / frames_per_s, 6), content
        )
    except WrongFieldError as fault:
        return Utterance(recording, place, fault=str(fault))
