"""The lines of scripted conversations, spoken, checked and spoken again until they pass, with the times of their words.

A synthesiser that predicts durations says when each word begins by its own count. After a pause the waveform tells it
more closely: there the rise of sound counts, and the predicted time says which rise it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bystander.schemas.engines import (
    Recogniser,
    RecognitionReply,
    RecognitionRequest,
    RowFault,
    Samples,
    SpeechReply,
    SpeechRequest,
    SpokenWord,
)
from bystander.schemas.identity import derive_seed
from bystander.schemas.sid_params import SpeakConversations
from bystander.schemas.stages import StageContext
from bystander.schemas.tpi_params import SynthesiseSpeech
from bystander.tasks.audio.resampling import resample
from bystander.tasks.audio.speech_checks import CHECK_REASONS, accept_speech
from bystander.tasks.audio.speech_edges import find_sounding, find_speech_start
from bystander.tasks.audio.trimming import fade_edges
from bystander.tasks.metrics.text_normaliser import normalise_text
from bystander.tasks.metrics.wer import measure_wer
from bystander.tasks.stages.recognition_faults import find_no_words
from bystander.tasks.texts.turn_words import find_turn_words

CLIP_REASONS = CHECK_REASONS | {
    "nothing_recognised",
    "misrecognised",
    "empty_text",
    "text_too_long_to_speak",
    "unsupported_language",
    "speech_engine_fault",
    "recogniser_fault",
    "words_not_in_place",
    "no_word_times",
}
_BATCH_LINES = 128
_BEFORE_S, _AFTER_S = 0.06, 0.12
"""Kept before the first sound and after the last: what lies below the threshold of a sound still belongs to it."""
_FADE_S = 0.005
_REACH_S = 0.08
_PAUSE_S = 0.05
_FARTHEST_S = 0.25
_MARKS = frozenset(".,!?;:…—-。，！？；：、")


@dataclass(frozen=True, slots=True)
class Line:
    """What one speaker says without being placed anew: `part` names it within its conversation."""

    row: int
    recording_id: str
    part: str
    language: str
    voice: str
    text: str
    recognised: bool
    needs_words: bool = False


@dataclass(frozen=True, slots=True)
class LineClip:
    """A line as spoken: mono samples at `SpeakConversations.sampling_rate`; times in seconds from the first of them.

    `start_s` is where the first phone begins, `end_s` where sound ends. `words` are those of the text, None where the
    engine cannot tell them.
    """

    text: str
    samples: Samples
    start_s: float
    end_s: float
    words: tuple[SpokenWord, ...] | None


def speak_lines(
    stage: str, lines: Sequence[Line], params: SpeakConversations, context: StageContext
) -> list[LineClip | RowFault]:
    """Speak each line, up to `params.checks.max_attempts` times with seeds of their own, and return what passed.

    Raises:
        EngineError: an engine as a whole failed.
    """
    results: list[LineClip | RowFault] = [RowFault("speech_engine_fault", "no attempt was made")] * len(lines)
    pending = list(range(len(lines)))
    for attempt in range(params.checks.max_attempts):
        for start in range(0, len(pending), _BATCH_LINES):
            batch = pending[start : start + _BATCH_LINES]
            outcomes = _attempt(stage, [lines[i] for i in batch], attempt, params, context)
            for index, outcome in zip(batch, outcomes, strict=True):
                results[index] = outcome
        pending = [index for index in pending if isinstance(results[index], RowFault)]
        if not pending:
            break
    return results


def _attempt(
    stage: str, lines: Sequence[Line], attempt: int, params: SpeakConversations, context: StageContext
) -> list[LineClip | RowFault]:
    replies = context.speech.synthesise(
        [
            SpeechRequest(
                text=line.text,
                voice=line.voice,
                seed=derive_seed(context.build_seed, line.recording_id, stage, line.part, attempt),
                language=line.language,
                word_times=True,
            )
            for line in lines
        ]
    )
    clips = [_check(line, reply, params) for line, reply in zip(lines, replies, strict=True)]
    clips = _recognise(lines, clips, params, context)
    return [
        replace(
            clip,
            detail=f"{line.part}, attempt {attempt + 1} of {params.checks.max_attempts}, {line.text!r}: {clip.detail}",
        )
        if isinstance(clip, RowFault)
        else clip
        for line, clip in zip(lines, clips, strict=True)
    ]


def _check(line: Line, reply: SpeechReply | RowFault, params: SpeakConversations) -> LineClip | RowFault:
    if isinstance(reply, RowFault):
        return _pass_on(reply, "speech_engine_fault")
    accepted = accept_speech(reply.samples, reply.sampling_rate, line.text, fit_checks(params, line.language))
    if isinstance(accepted, RowFault):
        return accepted
    if reply.words is None and line.needs_words:
        return RowFault("no_word_times", "the speech engine cannot tell when the words of this text are spoken")
    return cut_clip(line.text, reply, params.sampling_rate)


def fit_checks(params: SpeakConversations, language: str) -> SynthesiseSpeech:
    """Return the checks with the bounds that a language has."""
    if language != "zh":
        return params.checks
    return params.checks.model_copy(
        update={"max_seconds_per_character": params.max_seconds_per_chinese_character},
    )


def cut_clip(text: str, reply: SpeechReply, rate: int) -> LineClip | RowFault:
    """Return a synthesised clip cut to its speech at `rate` Hz, the times of its words refined by its energy.

    `words_not_in_place`: the first word is not where sound begins, by a quarter of a second or more.
    """
    sounding = find_sounding(reply.samples, reply.sampling_rate)
    if not len(sounding):
        return RowFault("silent", "no sound of 20 ms or more")
    start_s, end_s = float(sounding[0, 0]), float(sounding[-1, 1])
    words = refine_words(text, reply, start_s, end_s) if reply.words else None
    if reply.words and abs(reply.words[0].start_s - start_s) > _FARTHEST_S:
        return RowFault(
            "words_not_in_place", f"sound begins at {start_s:.2f} s, the first word at {reply.words[0].start_s:.2f} s"
        )
    first = max(0, round((start_s - _BEFORE_S) * reply.sampling_rate))
    last = min(len(reply.samples), round((end_s + _AFTER_S) * reply.sampling_rate))
    faded = fade_edges(reply.samples[first:last], round(_FADE_S * reply.sampling_rate))
    offset_s = first / reply.sampling_rate
    return LineClip(
        text=text,
        samples=resample(faded, reply.sampling_rate, rate),
        start_s=start_s - offset_s,
        end_s=end_s - offset_s,
        words=words and tuple(SpokenWord(word.word, word.start_s - offset_s, word.end_s - offset_s) for word in words),
    )


def refine_words(text: str, reply: SpeechReply, start_s: float, end_s: float) -> tuple[SpokenWord, ...]:
    """Return the words of a reply with the first at `start_s`, and those after a mark where sound rises after a pause.

    The others keep the engine's times. Starts do not fall; a word ends where the next begins, if not before.
    """
    assert reply.words is not None
    places = find_turn_words(text)
    starts: list[float] = []
    for index, word in enumerate(reply.words):
        found: float | None = word.start_s
        if index == 0:
            found = start_s
        elif len(places) == len(reply.words) and _has_mark(text, places[index - 1].end, places[index].start):
            found = find_speech_start(reply.samples, reply.sampling_rate, word.start_s, _REACH_S, _PAUSE_S)
        starts.append(word.start_s if found is None else found)
    starts = [min(start, end_s) for start in np.maximum.accumulate(starts).tolist()]
    ends = [*starts[1:], end_s]
    return tuple(
        SpokenWord(word.word, start, max(start, min(word.end_s, end)))
        for word, start, end in zip(reply.words, starts, ends, strict=True)
    )


def _has_mark(text: str, end: int, start: int) -> bool:
    return not _MARKS.isdisjoint(text[end - 1 : start])


def _recognise(
    lines: Sequence[Line], clips: list[LineClip | RowFault], params: SpeakConversations, context: StageContext
) -> list[LineClip | RowFault]:
    recogniser: Recogniser | None = context.engines.get("recogniser")
    heard_at = [
        i
        for i, (line, clip) in enumerate(zip(lines, clips, strict=True))
        if isinstance(clip, LineClip) and line.recognised and line.language in params.recognised_languages
    ]
    if recogniser is None or not heard_at:
        return clips
    heard = [(i, clip) for i in heard_at if isinstance(clip := clips[i], LineClip)]
    replies = recogniser.recognise(
        [RecognitionRequest(clip.samples, params.sampling_rate, lines[i].language) for i, clip in heard]
    )
    judged = list(clips)
    for (i, clip), reply in zip(heard, replies, strict=True):
        judged[i] = _judge(lines[i], reply, params.checks.max_wer) or clip
    return judged


def _judge(line: Line, reply: RecognitionReply | RowFault, max_wer: float) -> RowFault | None:
    if isinstance(reply, RowFault):
        return _pass_on(reply, "recogniser_fault")
    if not normalise_text(reply.text, line.language):
        return find_no_words(reply)
    rate = measure_wer(line.text, reply.text, line.language).normalised
    if rate > max_wer:
        return RowFault("misrecognised", f"recognised as {reply.text!r}, word error rate {rate:.2f}", reply.text)
    return None


def _pass_on(fault: RowFault, otherwise: str) -> RowFault:
    if fault.reason in CLIP_REASONS:
        return fault
    return RowFault(otherwise, f"{fault.reason}: {fault.detail}" if fault.detail else fault.reason, fault.raw_output)
