"""Stage `transcribe_recordings`: every recording gets a transcript that fits its audio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.activity import VoiceActivityDetector
from bystander.schemas.arrays import list_rows
from bystander.schemas.engines import Recogniser, RowFault
from bystander.schemas.errors import InputError
from bystander.schemas.sid import DECODED, RECORDING
from bystander.schemas.sid_params import TranscribeRecordings
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.tasks.audio.channels import ChannelValues, decode_channels
from bystander.tasks.stages.heard_utterances import HeardUtterance, hear_utterances
from bystander.tasks.stages.own_speech import OwnSpeech, find_own_speech
from bystander.tasks.stages.transcript_fit import check_fit
from bystander.tasks.stages.untimed_turns import place_turns

NAME = "transcribe_recordings"
RECOGNISER_SOURCE = "recogniser"
_USES = ("recording_id", "language", "speakers", "audio", "utterances", "transcript_source")


def transcribe_recordings(rows: pa.Table, context: StageContext) -> StageOutput:
    """Write the transcript where there is none, place one that has no times, and check one that has.

    The speech of each channel is found by the voice activity detector, where one is configured, else by energy; what
    leaks from the other channel does not count. Utterances are that speech with pauses up to `max_pause_s`. Where
    there is no transcript, the recogniser writes what they say. Where there is one without times, its words are matched
    with those that the recogniser hears and get the times of their utterances. Where there is one with times, they must
    agree with the speech.

    Columns read: language, speakers, audio, utterances, transcript_source. Written: utterances, transcript_source,
    speakers, synthetic (false), truths (none).

    Reject reasons:
        unreadable_audio: the audio cannot be decoded.
        vad_fault, recogniser_fault: the engine failed on this recording; its own reason is in the detail.
        no_recogniser: there is no transcript, or none with times, and no recogniser is configured.
        no_speech_recognised: the recogniser hears no word.
        transcript_outside_audio: its times reach more than `max_overrun_s` past the end.
        channels_swapped: it fits the audio with its speakers exchanged.
        transcript_shifted: it fits the audio when it is moved in time.
        transcript_disagrees: less than `min_transcript_overlap` of a channel's transcribed time has speech, or hardly
            more than of the time about it (`min_transcript_contrast`); or, of one without times, fewer words than
            `min_words_heard` are heard.

    Raises:
        EngineError: an engine as a whole failed.
    """
    params = cast(TranscribeRecordings, context.params)
    recogniser = cast("Recogniser | None", context.engines.get("recogniser"))
    # One recording at a time: its samples may fill gigabytes.
    outcomes = [_transcribe(row, recogniser, context.vad, params) for row in list_rows(rows.select(_USES))]
    return split_rows(NAME, rows, outcomes, RECORDING)


def _transcribe(
    row: Mapping[str, Any],
    recogniser: Recogniser | None,
    vad: VoiceActivityDetector | None,
    params: TranscribeRecordings,
) -> dict[str, Any] | RowFault:
    try:
        values, rate = decode_channels(row["audio"]["bytes"])
    except InputError as exc:
        return RowFault("unreadable_audio", str(exc))
    speech = find_own_speech(values, rate, vad)
    if isinstance(speech, RowFault):
        return speech
    given: Sequence[Mapping[str, Any]] = row["utterances"]
    if any(_has_times(utterance) for utterance in given):
        verdict = check_fit(given, speech, len(values) / rate, params)
        if isinstance(verdict, RowFault):
            return verdict
        return _finish(row, list(verdict.utterances), row["transcript_source"], verdict.exchanged)
    heard = _hear(row, values, rate, speech, recogniser, params)
    if isinstance(heard, RowFault):
        return heard
    if not given:
        return _finish(row, [one.describe() for one in heard], RECOGNISER_SOURCE)
    placed = place_turns(given, heard, params.min_words_heard)
    return placed if isinstance(placed, RowFault) else _finish(row, placed, row["transcript_source"])


def _hear(
    row: Mapping[str, Any],
    values: ChannelValues,
    rate: int,
    speech: OwnSpeech,
    recogniser: Recogniser | None,
    params: TranscribeRecordings,
) -> list[HeardUtterance] | RowFault:
    if recogniser is None:
        lacks = "its transcript has no times" if row["utterances"] else "it has no transcript"
        return RowFault(
            "no_recogniser", f"{lacks}, and there is no recogniser to hear it; set engines.recogniser or give one"
        )
    heard = hear_utterances(values, rate, speech, row["language"], recogniser, params)
    if not isinstance(heard, RowFault) and not heard:
        return RowFault("no_speech_recognised", "the recogniser hears no word in it")
    return heard


def _has_times(utterance: Mapping[str, Any]) -> bool:
    timed = [utterance, *(utterance["words"] or ())]
    return any(one["start_s"] is not None and one["end_s"] is not None for one in timed)


def _finish(
    row: Mapping[str, Any], utterances: list[dict[str, Any]], source: str, exchanged: bool = False
) -> dict[str, Any]:
    return {
        "utterances": utterances,
        "transcript_source": source,
        "speakers": list(reversed(row["speakers"])) if exchanged else row["speakers"],
        "synthetic": False,
        "truths": [],
    }


STAGE = Stage(
    name=NAME,
    version=1,
    reads=DECODED,
    writes=RECORDING,
    reasons=frozenset(
        {
            "unreadable_audio",
            "vad_fault",
            "recogniser_fault",
            "no_recogniser",
            "no_speech_recognised",
            "transcript_outside_audio",
            "channels_swapped",
            "transcript_shifted",
            "transcript_disagrees",
        }
    ),
    run=transcribe_recordings,
    params_type=TranscribeRecordings,
    optional_engines=("recogniser", "vad"),
    uses=_USES,
)
