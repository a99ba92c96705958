"""Stage `find_turns`: where a turn of one speaker begins while the other speaks, and where nobody does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bystander.schemas.activity import ActivityRequest, VoiceActivityDetector
from bystander.schemas.arrays import list_rows
from bystander.schemas.engines import RowFault
from bystander.schemas.errors import InputError
from bystander.schemas.sid import RECORDING, TURNS_FOUND
from bystander.schemas.sid_params import FindTurns
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.tasks.audio.channels import decode_channels
from bystander.tasks.audio.coding import dequantise
from bystander.tasks.audio.levels import SILENCE_DBFS
from bystander.tasks.audio.near_silence import find_near_silence
from bystander.tasks.audio.speech_activity import (
    FRAME_S,
    estimate_floor,
    find_energetic,
    mark_spans,
    measure_levels,
)
from bystander.tasks.stages.transcript_atoms import list_atoms, list_words, write_text
from bystander.tasks.stages.turn_search import (
    Hearing,
    OverlappingTurn,
    Turn,
    build_turns,
    find_overlapping,
    place_margins,
    subtract_leak,
)

NAME = "find_turns"
_USES = ("recording_id", "audio", "utterances")
_Spans = npt.NDArray[np.int64]


def find_turns(rows: pa.Table, context: StageContext) -> StageOutput:
    """Find the turns that begin while the other speaker has theirs, on both channels; what they say decides nothing.

    What was said comes from the transcript, when it was said from the audio too: the voice activity detector, where
    one is configured, else the channel's energy (`turn_search` has the rules). Turns shorter than `min_turn_s` or
    longer than `max_turn_s` are left out. Marks of sounds ([laughter], <noise>, {um}) are dropped from the text.

    Near-silent stretches are those of either channel without speech, transcribed or detected, near the noise floor.

    Columns read: audio (two channels), utterances. Written: turns, silences, in seconds of the recording.

    Reject reasons:
        unreadable_audio: the audio cannot be decoded, or has not two channels.
        vad_fault: the detector failed on a channel; its own reason is in the detail.
        transcript_without_times: no utterance has times.
        transcript_not_heard: there is speech in no place where the transcript has some.
        one_speaker: only one channel has transcribed speech that can be heard.
        no_overlap: no turn begins while the other speaker has theirs.
        turns_out_of_bounds: such turns are all shorter or longer than is asked for.

    Raises:
        EngineError: the detector as a whole failed.
    """
    params = cast(FindTurns, context.params)
    # One recording at a time: its samples may fill gigabytes.
    outcomes = [_search(row, context.vad, params) for row in list_rows(rows.select(_USES))]
    return split_rows(NAME, rows, outcomes, TURNS_FOUND)


def _search(row: Mapping[str, Any], vad: VoiceActivityDetector | None, params: FindTurns) -> dict[str, Any] | RowFault:
    try:
        values, rate = decode_channels(row["audio"]["bytes"])
    except InputError as exc:
        return RowFault("unreadable_audio", str(exc))
    if values.shape[1] != 2:
        return RowFault("unreadable_audio", f"{values.shape[1]} channels, where each of two speakers has one")
    utterances: Sequence[Mapping[str, Any]] = row["utterances"]
    duration_s = len(values) / rate
    if not any(_has_times(utterance) for utterance in utterances):
        return RowFault("transcript_without_times", f"none of {len(utterances)} utterances has a start and an end")
    hearings: list[Hearing] = []
    for channel in range(2):
        hearing = _hear(values[:, channel], rate, vad)
        if isinstance(hearing, RowFault):
            return RowFault("vad_fault", f"channel {channel}: {hearing.reason}: {hearing.detail}")
        hearings.append(hearing)
    atoms = [list_atoms(utterances, channel, duration_s) for channel in range(2)]
    hearings = [
        subtract_leak(own, other, told, params)
        for own, other, told in zip(hearings, reversed(hearings), atoms, strict=True)
    ]
    turns = [
        build_turns(channel, told, hearing, params)
        for channel, (told, hearing) in enumerate(zip(atoms, hearings, strict=True))
    ]
    speakers = sum(bool(own) for own in turns)
    if speakers < 2:
        if not speakers:
            return RowFault("transcript_not_heard", "there is no speech where the transcript has it")
        return RowFault("one_speaker", f"no speech on channel {0 if turns[1] else 1} where the transcript has some")
    found = find_overlapping(turns, params)
    if not found:
        return RowFault("no_overlap", f"none of {sum(map(len, turns))} turns begins while the other speaks")
    fit = [one for one in found if params.min_turn_s <= one.turn.duration_s <= params.max_turn_s]
    if not fit:
        lengths = ", ".join(f"{one.turn.duration_s:.2f} s" for one in found[:3])
        return RowFault("turns_out_of_bounds", f"{len(found)} turns begin while the other speaks; they last {lengths}")
    return {
        "turns": [_describe(one, turns, utterances, params, duration_s) for one in fit],
        "silences": [
            {"channel": channel, "start_s": start * FRAME_S, "end_s": min(duration_s, end * FRAME_S)}
            for channel, hearing in enumerate(hearings)
            for start, end in _find_silences(hearing, utterances, channel, params).tolist()
        ],
    }


def _has_times(utterance: Mapping[str, Any]) -> bool:
    timed = [utterance, *(utterance["words"] or ())]
    return any(one["start_s"] is not None and one["end_s"] is not None for one in timed)


def _hear(values: npt.NDArray[np.int16], rate: int, vad: VoiceActivityDetector | None) -> Hearing | RowFault:
    levels = measure_levels(values, rate)
    floor = estimate_floor(levels)
    energetic = find_energetic(levels, floor)
    leak = np.full(len(levels), SILENCE_DBFS, np.float32)
    if vad is None:
        return Hearing(energetic, energetic, levels, floor, leak)
    (spans,) = vad.find_speech([ActivityRequest(dequantise(values), rate)])
    if isinstance(spans, RowFault):
        return spans
    return Hearing(mark_spans(spans, len(levels)), energetic, levels, floor, leak)


def _find_silences(
    hearing: Hearing, utterances: Sequence[Mapping[str, Any]], channel: int, params: FindTurns
) -> _Spans:
    told = np.array(
        [
            [part["start_s"], part["end_s"]]
            for utterance in utterances
            if utterance["channel"] == channel
            for part in _list_told(utterance)
        ],
        np.float64,
    ).reshape(-1, 2)
    speech = hearing.speech | hearing.energetic | mark_spans(told, len(hearing.levels))
    return find_near_silence(
        hearing.levels,
        hearing.floor,
        speech,
        params.min_silence_s,
        params.silence_above_floor_db,
        params.max_silence_dbfs,
    )


def _list_told(utterance: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what has times in an utterance: its words where all have some, else itself."""
    words = utterance["words"] or ()
    if words and all(word["start_s"] is not None and word["end_s"] is not None for word in words):
        return list(words)
    return [utterance] if utterance["start_s"] is not None and utterance["end_s"] is not None else []


def _describe(
    one: OverlappingTurn,
    turns: Sequence[Sequence[Turn]],
    utterances: Sequence[Mapping[str, Any]],
    params: FindTurns,
    duration_s: float,
) -> dict[str, Any]:
    turn, other = one.turn, one.other
    start_s, end_s = place_margins(turn, turns[turn.channel], params, duration_s)
    return {
        "channel": turn.channel,
        "start_s": start_s,
        "end_s": end_s,
        "text": write_text(turn.atoms, utterances),
        "words": list_words(turn.atoms),
        "speech": [{"start_s": first * FRAME_S, "end_s": last * FRAME_S} for first, last in turn.speech.tolist()],
        "other_text": write_text(other.atoms, utterances),
        "other_start_s": other.start * FRAME_S,
        "other_end_s": other.end * FRAME_S,
        "overlap_s": one.overlap * FRAME_S,
    }


STAGE = Stage(
    name=NAME,
    version=1,
    reads=RECORDING,
    writes=TURNS_FOUND,
    reasons=frozenset(
        {
            "unreadable_audio",
            "vad_fault",
            "transcript_without_times",
            "transcript_not_heard",
            "one_speaker",
            "no_overlap",
            "turns_out_of_bounds",
        }
    ),
    run=find_turns,
    params_type=FindTurns,
    optional_engines=("vad",),
    uses=_USES,
)
