"""Stage `speak_conversations`: a script becomes a recording of two channels, whose break times are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.engines import RowFault, Voice
from bystander.schemas.identity import make_id, make_rng
from bystander.schemas.sid import BEGINNING, MIDDLE, RECORDING, SCRIPTED, UNINTERRUPTED
from bystander.schemas.sid_params import SpeakConversations
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.tasks.audio.channels import encode_channels
from bystander.tasks.stages.conversation_clips import CLIP_REASONS, Line, LineClip, speak_lines
from bystander.tasks.stages.conversation_layout import UserTurn, lay_out
from bystander.tasks.texts.turn_words import split_turn_words

NAME = "speak_conversations"
SOURCE, TRANSCRIPT = "synthetic", "script"
Row = Mapping[str, Any]


def speak_conversations(rows: pa.Table, context: StageContext) -> StageOutput:
    """Speak each script in two voices of its language: the assistant on channel 0, the user over it on channel 1.

    Backchannel and substance are two clips with a pause of `gap_s` between them, or one utterance where that is null.
    The user begins somewhere in the assistant's turn; an interrupted assistant may stop a little later, at the end of
    a word; a user who only listens may say so twice. All of it is drawn row by row.

    A break time is when the first phone of the substance begins. Where a clip begins with it, or a pause precedes it,
    that is where sound rises in the clean clip (`tasks.audio.speech_edges`), else the time that the synthesiser's own
    durations give. Utterances have their texts and rounded times, no words: what is annotated must not know the truth.

    Columns read: recording_id, language, assistant_text, backchannel, substance, gap_s. Written: all of
    `RECORDING`.

    Reject reasons:
        no_voices_for_language: fewer than two voices of the engine that may be drawn (on the side that `use` names)
            speak the row's language.
        empty_script: the assistant or the user says nothing.
        not_finite, silent, too_quiet, clipped, too_fast, too_slow, inner_silence: see `tasks.audio.speech_checks`.
        words_not_in_place: sound begins elsewhere than the first word does by the synthesiser's count.
        no_word_times: backchannel and substance are one utterance, and the engine does not tell when words begin.
        nothing_recognised, misrecognised: the recogniser heard nothing, or other words than those of the line.
        empty_text, text_too_long_to_speak, unsupported_language: the engines' own reasons, passed on.
        speech_engine_fault, recogniser_fault: another fault of an engine; its own reason is in the detail.

    Raises:
        EngineError: an engine as a whole failed.
    """
    params = cast(SpeakConversations, context.params)
    voices = context.speech.voices
    scripts: list[Row] = rows.select(STAGE.uses).to_pylist()
    planned = [_plan_lines(index, row, voices, params, context) for index, row in enumerate(scripts)]
    lines = [line for plan in planned if not isinstance(plan, RowFault) for line in plan]
    spoken: dict[int, dict[str, LineClip | RowFault]] = {}
    for line, clip in zip(lines, speak_lines(NAME, lines, params, context), strict=True):
        spoken.setdefault(line.row, {})[line.part] = clip
    outcomes = [
        plan if isinstance(plan, RowFault) else _finish(row, plan, spoken[index], params, context)
        for index, (row, plan) in enumerate(zip(scripts, planned, strict=True))
    ]
    return split_rows(NAME, rows, outcomes, RECORDING)


def _plan_lines(
    index: int, row: Row, voices: Sequence[Voice], params: SpeakConversations, context: StageContext
) -> list[Line] | RowFault:
    speaking = list_speaking(voices, row["language"], params)
    if len(speaking) < 2:
        return RowFault("no_voices_for_language", f"{len(speaking)} voices speak {row['language']!r}, two are needed")
    if not split_turn_words(row["assistant_text"]) or not split_turn_words(row["backchannel"] + row["substance"]):
        return RowFault("empty_script", "the assistant or the user says nothing")
    rng = make_rng(context.build_seed, row["recording_id"], NAME, "voices")
    assistant, user = (speaking[i] for i in rng.permutation(len(speaking))[:2])
    again = rng.random() < params.second_backchannel_share
    common = {"row": index, "recording_id": row["recording_id"], "language": row["language"]}
    take = row["recording_id"]
    if params.assistant_takes is not None:
        number = int(rng.integers(params.assistant_takes))
        take = make_id("take", row["language"], row["assistant_text"], number)
        order = make_rng(context.build_seed, take, NAME, "voices").permutation(len(speaking))
        assistant = next(speaking[i] for i in order if speaking[i] != user)
    spoken = {**common, "recording_id": take}
    lines = [Line(**spoken, part="assistant", voice=assistant, text=row["assistant_text"], recognised=True)]
    backchannel, substance = row["backchannel"].strip(), row["substance"].strip()
    if backchannel and substance and row["gap_s"] is None:
        text = join_turn(row)
        lines.append(Line(**common, part="turn", voice=user, text=text, recognised=True, needs_words=True))
        return lines
    if backchannel:
        lines.append(Line(**common, part="backchannel", voice=user, text=backchannel, recognised=False))
    if substance:
        lines.append(Line(**common, part="substance", voice=user, text=substance, recognised=True))
    elif again:
        lines.append(Line(**common, part="second_backchannel", voice=user, text=backchannel, recognised=False))
    return lines


def list_speaking(voices: Sequence[Voice], language: str, params: SpeakConversations) -> list[str]:
    """Return the voices that may be drawn for conversations in a language."""
    return [
        voice.id
        for voice in voices
        if _main_language(voice.language) == _main_language(language)
        and voice.id not in params.avoid_voices
        and params.admits("sid_voice", voice.id)
    ]


def join_turn(row: Row) -> str:
    """Return the text of the user's turn: the backchannel, then the substance; Mandarin has no space between them."""
    space = "" if _main_language(row["language"]) == "zh" else " "
    return space.join(text for text in (row["backchannel"].strip(), row["substance"].strip()) if text)


def _finish(
    row: Row,
    lines: Sequence[Line],
    clips: Mapping[str, LineClip | RowFault],
    params: SpeakConversations,
    context: StageContext,
) -> dict[str, Any] | RowFault:
    passed: dict[str, LineClip] = {}
    for line in lines:
        clip = clips[line.part]
        if isinstance(clip, RowFault):
            return clip
        passed[line.part] = clip
    rng = make_rng(context.build_seed, row["recording_id"], NAME, "layout")
    conversation = lay_out(passed["assistant"], _make_turn(row, passed), passed.get("second_backchannel"), rng, params)
    rate = params.sampling_rate
    return {
        "source": SOURCE,
        "licence": _join_licences([line.voice for line in lines[:2]], context),
        "speakers": [lines[0].voice, lines[1].voice],
        "audio": {"bytes": encode_channels(conversation.channels, rate), "path": f"{row['recording_id']}.flac"},
        "sampling_rate": rate,
        "duration_s": len(conversation.channels) / rate,
        "utterances": conversation.utterances,
        "transcript_source": TRANSCRIPT,
        "synthetic": True,
        "truths": conversation.truths,
    }


def _join_licences(voices: Sequence[str], context: StageContext) -> str | None:
    """Return the licences of voices as one expression; None where one is not known."""
    licences = {voice.licence for voice in context.speech.voices if voice.id in voices}
    return " AND ".join(sorted(licences)) if "" not in licences else None


def _make_turn(row: Row, clips: Mapping[str, LineClip]) -> UserTurn:
    parts = [part for part in ("turn", "backchannel", "substance") if part in clips]
    before = len(split_turn_words(row["backchannel"]))
    if not row["substance"].strip():
        category, index = UNINTERRUPTED, None
    else:
        category, index = (MIDDLE if before else BEGINNING), before
    return UserTurn(
        text=join_turn(row),
        clips=tuple(clips[part] for part in parts),
        gap_s=row["gap_s"] or 0.0,
        category=category,
        break_word_index=index,
    )


def _main_language(tag: str) -> str:
    return tag.replace("_", "-").split("-")[0].lower()


STAGE = Stage(
    name=NAME,
    version=1,
    reads=SCRIPTED,
    writes=RECORDING,
    reasons=CLIP_REASONS | {"no_voices_for_language", "empty_script"},
    run=speak_conversations,
    params_type=SpeakConversations,
    engines=("speech",),
    optional_engines=("recogniser",),
    uses=("recording_id", "language", "assistant_text", "backchannel", "substance", "gap_s"),
)
