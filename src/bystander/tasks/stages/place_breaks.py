"""Stage `place_breaks`: when a turn's new intent begins, and what kind of turn that makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa

from bystander.schemas.arrays import list_rows
from bystander.schemas.engines import RowFault
from bystander.schemas.sid import ALIGNED, BEGINNING, MIDDLE, PLACED, UNINTERRUPTED
from bystander.schemas.sid_params import PlaceBreaks
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.tasks.audio.coding import decode_audio
from bystander.tasks.audio.speech_activity import (
    DIGITAL_SILENCE_DBFS,
    FRAME_S,
    Levels,
    Mask,
    mark_spans,
    measure_levels,
)
from bystander.tasks.texts.turn_words import is_tagged_text

NAME = "place_breaks"
_USES = (
    "id",
    "audio",
    "duration_s",
    "text",
    "text_with_break",
    "words",
    "break_word_index",
    "timed_words",
    "phones",
    "speech",
)
_BELOW_LOUD_DB = 25.0


def place_breaks(rows: pa.Table, context: StageContext) -> StageOutput:
    """Join the tag and the alignment: the break is where the first phone of the tagged word begins.

    Where the aligner gives no phones it is where the word begins. It must lie in the clip, in the order of the words,
    and no more than `max_distance_from_speech_s` before speech: both as the turn has it (found with all of the
    recording at hand) and as the clip's energy shows it. Speech before the break does not count: a word that is pulled
    into the pause before it begins right after the last word's sound.

    Categories:
        uninterrupted: no break; break_time_s is the clip's duration.
        middle: words come first: a backchannel, then the new intent.
        beginning: no word comes first, and the break is at most `beginning_within_s` after the turn's first speech.
    A turn that has sounded for longer before its first word has something in it that the text has not (a laugh, a
    hesitation, a word that the transcript lacks): whether a system should have stopped there cannot be told from the
    text, so it is neither `beginning` nor `middle` and is rejected as `sound_before_break`.

    Columns read: audio, duration_s, text, text_with_break, words, break_word_index, timed_words, phones, speech.
    Written: category, total_nonbreak, break_time_s (from the clip's start).

    Reject reasons:
        tag_inconsistent: text_with_break is not the text with one tag before the tagged word, or there is no such word.
        break_not_aligned: the alignment has not one entry a word, or no time for the tagged one.
        break_outside_clip: the break is before the clip's start, or at its end or later.
        break_out_of_order: the break is before the start of a word that comes first, or not before its own word's end.
        break_far_from_speech: no speech follows within `max_distance_from_speech_s`.
        sound_before_break: see above.
    """
    params = cast(PlaceBreaks, context.params)
    outcomes = [_place(row, params) for row in list_rows(rows.select(_USES))]
    return split_rows(NAME, rows, outcomes, PLACED)


def _place(row: Mapping[str, Any], params: PlaceBreaks) -> dict[str, Any] | RowFault:
    index: int | None = row["break_word_index"]
    if not is_tagged_text(row["text_with_break"], row["text"], index):
        place = "no word" if index is None else f"word {index}"
        return RowFault("tag_inconsistent", f"{row['text_with_break']!r} is not the text with a tag before {place}")
    if index is None:
        return {"category": UNINTERRUPTED, "total_nonbreak": True, "break_time_s": row["duration_s"]}
    words, timed = row["words"], row["timed_words"]
    if not 0 <= index < len(words):
        return RowFault("tag_inconsistent", f"there is no word {index} among {len(words)}")
    if len(timed) != len(words):
        return RowFault("break_not_aligned", f"{len(timed)} words are aligned of {len(words)}")
    time_s = _find_start(index, timed, row["phones"])
    if time_s is None:
        return RowFault("break_not_aligned", f"the aligner gives no time for {words[index]!r}")
    fault = _check_time(time_s, index, row, params)
    if fault is not None:
        return fault
    return {"category": MIDDLE if index else BEGINNING, "total_nonbreak": False, "break_time_s": time_s}


def _find_start(index: int, timed: Sequence[Mapping[str, Any]], phones: Sequence[Mapping[str, Any]]) -> float | None:
    starts = [phone["start_s"] for phone in phones if phone["word_index"] == index and phone["start_s"] is not None]
    start: float | None = min(starts) if starts else timed[index]["start_s"]
    return start


def _check_time(time_s: float, index: int, row: Mapping[str, Any], params: PlaceBreaks) -> RowFault | None:
    timed = row["timed_words"]
    if not 0 <= time_s < row["duration_s"]:
        return RowFault("break_outside_clip", f"{time_s:.3f} s in a clip of {row['duration_s']:.3f} s")
    end_s = timed[index]["end_s"]
    latest_s = max((word["start_s"] for word in timed[:index] if word["start_s"] is not None), default=0.0)
    if time_s < latest_s or (end_s is not None and time_s >= end_s):
        return RowFault("break_out_of_order", f"{time_s:.3f} s, after a word at {latest_s:.3f} s, to {end_s} s")
    samples, rate = decode_audio(row["audio"]["bytes"])
    spans = np.array([[span["start_s"], span["end_s"]] for span in row["speech"]], np.float64).reshape(-1, 2)
    levels = measure_levels(samples, rate)
    distance_s = max(
        _measure_wait(_find_sounding(levels), time_s),
        _measure_wait(mark_spans(spans, len(levels)), time_s) if len(spans) else 0.0,
    )
    if distance_s > params.max_distance_from_speech_s:
        what = "no speech follows" if distance_s == np.inf else f"the next speech comes {distance_s:.3f} s later"
        return RowFault("break_far_from_speech", f"break at {time_s:.3f} s: {what}")
    first_s = float(spans[0, 0]) if len(spans) else 0.0
    if index == 0 and time_s - first_s > params.beginning_within_s:
        return RowFault(
            "sound_before_break", f"the turn sounds from {first_s:.3f} s on, its first word only at {time_s:.3f} s"
        )
    return None


def _find_sounding(levels: Levels) -> Mask:
    """Return the frames within 25 dB of the clip's loud ones.

    No noise floor is asked: a clip may be speech from end to end, so that its quiet frames are no noise. In louder
    noise than that all frames sound, and the turn's own speech alone decides.
    """
    if not len(levels):
        return np.zeros(0, bool)
    return levels >= max(DIGITAL_SILENCE_DBFS, float(np.quantile(levels, 0.95)) - _BELOW_LOUD_DB)


def _measure_wait(speech: Mask, time_s: float) -> float:
    """Return the seconds from a time to the next frame of speech; 0 within one, infinite where none follows."""
    following = np.flatnonzero(speech[int(time_s / FRAME_S) :])
    return float(following[0]) * FRAME_S if len(following) else float("inf")


STAGE = Stage(
    name=NAME,
    version=1,
    reads=ALIGNED,
    writes=PLACED,
    reasons=frozenset(
        {
            "tag_inconsistent",
            "break_not_aligned",
            "break_outside_clip",
            "break_out_of_order",
            "break_far_from_speech",
            "sound_before_break",
        }
    ),
    run=place_breaks,
    params_type=PlaceBreaks,
    uses=_USES,
)
