"""What is true of a turn that was cut from a synthetic recording, of which the script is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from bystander.schemas.sid import BEGINNING, UNINTERRUPTED
from bystander.tasks.texts.turn_words import fold_word, split_turn_words


@dataclass(frozen=True, slots=True)
class TurnTruth:
    """The category of a turn, the position of its break among the words of its text, and its time in the clip.

    Position and time are None where nothing breaks. The position alone is None where the turn's text does not have
    the word (a recogniser misheard it).
    """

    category: str
    break_word_index: int | None
    break_time_s: float | None


def find_truth(
    truths: Sequence[Mapping[str, Any]], turn: Mapping[str, Any], clip_start_s: float, clip_duration_s: float
) -> TurnTruth | None:
    """Return what is true of a turn, or None where no scripted turn of its channel shares time with it.

    A scripted turn may have been found as two, where its speaker paused for long. Then the first has no break unless
    the break lies in it, and the later one, which is all new intent, breaks at its first word.

    Args:
        truths: `TRUTH` values of the recording.
        turn: a `TURN_SPAN` value.
        clip_start_s: start of the clip in the recording.
        clip_duration_s: length of the clip.
    """
    speech = turn["speech"]
    first_s, last_s = (
        (speech[0]["start_s"], speech[-1]["end_s"]) if speech else (clip_start_s, clip_start_s + clip_duration_s)
    )

    def share(truth: Mapping[str, Any]) -> float:
        return float(min(last_s, truth["end_s"]) - max(first_s, truth["start_s"]))

    own = [truth for truth in truths if truth["channel"] == turn["channel"] and share(truth) > 0]
    if not own:
        return None
    truth = max(own, key=share)
    if truth["break_word_index"] is None or truth["break_time_s"] is None:
        return TurnTruth(UNINTERRUPTED, None, None)
    words = truth["words"]
    inside = [at for at, word in enumerate(words) if _is_inside(word, clip_start_s, clip_start_s + clip_duration_s)]
    at, time_s, category = truth["break_word_index"], truth["break_time_s"], truth["category"]
    if inside and all(word["start_s"] is not None for word in words):
        if at > inside[-1]:
            return TurnTruth(UNINTERRUPTED, None, None)
        if at < inside[0]:
            at, time_s = inside[0], words[inside[0]]["start_s"]
        if at == inside[0]:
            category = BEGINNING
    elif not clip_start_s <= time_s <= clip_start_s + clip_duration_s:
        return None
    said = [words[index]["word"] for index in inside] if inside else [word["word"] for word in words]
    position = _find_position(said, at - (inside[0] if inside else 0), split_turn_words(turn["text"]))
    return TurnTruth(category, position, time_s - clip_start_s)


def _is_inside(word: Mapping[str, Any], start_s: float, end_s: float) -> bool:
    if word["start_s"] is None or word["end_s"] is None:
        return True
    return bool(start_s <= (word["start_s"] + word["end_s"]) / 2 < end_s)


def _find_position(said: Sequence[str], at: int, words: Sequence[str]) -> int | None:
    """Return where the word `said[at]` is among `words`, which may be parted otherwise or misheard in places."""
    parted = [split_turn_words(word) for word in said]
    before = sum(map(len, parted[:at]))
    scripted = [fold_word(word) for group in parted for word in group]
    matcher = SequenceMatcher(None, scripted, [fold_word(word) for word in words], autojunk=False)
    for block in matcher.get_matching_blocks():
        if block.a <= before < block.a + block.size:
            return block.b + before - block.a
    return None
