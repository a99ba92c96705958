"""Stage `synthesise_speech`: every track is spoken, checked, and spoken again until it passes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bystander.schemas.engines import (
    RecognitionReply,
    RecognitionRequest,
    RowFault,
    Samples,
    SpeechReply,
    SpeechRequest,
)
from bystander.schemas.identity import derive_seed
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.tpi import SYNTHESISED, VOICED
from bystander.schemas.tpi_params import SynthesiseSpeech
from bystander.tasks.audio.coding import dequantise, encode_flac, encode_wav, quantise
from bystander.tasks.audio.levels import measure_rms_dbfs
from bystander.tasks.audio.speech_checks import CHECK_REASONS, accept_speech
from bystander.tasks.metrics.text_normaliser import normalise_text
from bystander.tasks.metrics.wer import measure_wer
from bystander.tasks.stages.recognition_faults import find_no_words

NAME = "synthesise_speech"
_USES = ("id", "language", "n_speakers", "primary_text", "third_party_text", "primary_voice", "third_party_voice")
_BATCH_TRACKS = 128  # decoded audio of so many tracks is held at once: some 40 MB


@dataclass(frozen=True, slots=True)
class _Track:
    """One track to be spoken: `text` as it stands in the row, `spoken` as it is given to the engine."""

    row: int
    row_id: str
    language: str
    speaker: str
    voice: str
    text: str
    spoken: str


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A track as spoken in one attempt that passed the checks of its signal: its 16-bit values, also as float32."""

    values: npt.NDArray[np.int16]
    samples: Samples
    rate: int


def synthesise_speech(rows: pa.Table, context: StageContext) -> StageOutput:
    """Speak every row's tracks: one a speaker, or the whole transcript in one track where n_speakers is 1.

    Attempt k of a track uses the seed derived from (build seed, row id, stage, speaker, k). The speech is trimmed,
    reduced to the 16 bits in which it is stored, checked, and recognised; what fails goes into the next attempt.
    A row whose track fails `max_attempts` times is rejected for the reason of that track's last attempt.

    Columns read: id, language, n_speakers, primary_text, third_party_text, primary_voice, third_party_voice.
    Written: tracks (primary first; a single track has speaker `primary` and the text of both).

    Reject reasons:
        not_finite, silent, too_quiet, clipped, too_fast, too_slow, inner_silence: see `tasks.audio.speech_checks`.
        nothing_recognised: the recogniser found no words, or took those that it wrote for made up (raw_output).
        misrecognised: the normalised word error rate is above `max_wer`; raw_output is what was recognised.
        empty_text, text_too_long_to_speak, unsupported_language: the engines' own reasons, passed on.
        speech_engine_fault, recogniser_fault: another fault of an engine; its own reason is in the detail.

    Raises:
        EngineError: an engine as a whole failed.
    """
    params = cast(SynthesiseSpeech, context.params)
    tracks = [track for index, row in enumerate(rows.select(_USES).to_pylist()) for track in plan_tracks(index, row)]
    results: list[dict[str, Any] | RowFault] = [RowFault("speech_engine_fault", "no attempt was made")] * len(tracks)
    pending = list(range(len(tracks)))
    for attempt in range(params.max_attempts):
        for start in range(0, len(pending), _BATCH_TRACKS):
            batch = pending[start : start + _BATCH_TRACKS]
            outcomes = _attempt([tracks[i] for i in batch], attempt, params, context)
            for index, outcome in zip(batch, outcomes, strict=True):
                results[index] = outcome
        pending = [index for index in pending if isinstance(results[index], RowFault)]
        if not pending:
            break
    return split_rows(NAME, rows, _join_tracks(len(rows), tracks, results), SYNTHESISED)


def join_transcript(primary_text: str, third_party_text: str) -> str:
    """Return the transcript of one voice: both texts, as they stand, one after the other; the second may be empty."""
    return f"{primary_text.strip()} {third_party_text.strip()}".strip()


def plan_tracks(index: int, row: dict[str, Any]) -> list[_Track]:
    """Return the tracks of one row, primary first."""
    common = {"row": index, "row_id": row["id"], "language": row["language"]}
    primary, third_party = row["primary_text"], row["third_party_text"]
    if row["n_speakers"] == 1:
        text, spoken = join_transcript(primary, third_party), _speak_on(primary, third_party)
        return [_Track(**common, speaker="primary", voice=row["primary_voice"], text=text, spoken=spoken)]
    return [
        _Track(**common, speaker="primary", voice=row["primary_voice"], text=primary, spoken=primary),
        _Track(**common, speaker="third_party", voice=row["third_party_voice"], text=third_party, spoken=third_party),
    ]


def _speak_on(primary_text: str, third_party_text: str) -> str:
    """Return both texts as one person says them: where the primary was cut off ("..."), a short pause instead."""
    if not third_party_text:
        return primary_text
    return join_transcript(re.sub(r"[\s,;:]*(?:\.{2,}|…)$", ",", primary_text.strip()), third_party_text)


def _attempt(
    tracks: Sequence[_Track], attempt: int, params: SynthesiseSpeech, context: StageContext
) -> list[dict[str, Any] | RowFault]:
    """Speak each track once and return its column values, or why it does not pass."""
    seeds = [derive_seed(context.build_seed, track.row_id, NAME, track.speaker, attempt) for track in tracks]
    replies = context.speech.synthesise(
        [
            SpeechRequest(text=track.spoken, voice=track.voice, seed=seed, language=track.language)
            for track, seed in zip(tracks, seeds, strict=True)
        ]
    )
    checked = [_check(track, reply, params) for track, reply in zip(tracks, replies, strict=True)]
    heard_at = [i for i, candidate in enumerate(checked) if isinstance(candidate, _Candidate)]
    heard = context.recogniser.recognise(
        [
            RecognitionRequest(candidate.samples, candidate.rate, tracks[i].language)
            for i, candidate in enumerate(checked)
            if isinstance(candidate, _Candidate)
        ]
    )
    recognised = dict(zip(heard_at, heard, strict=True))
    outcomes: list[dict[str, Any] | RowFault] = []
    for i, (track, candidate) in enumerate(zip(tracks, checked, strict=True)):
        outcome = candidate if isinstance(candidate, RowFault) else _judge(track, candidate, recognised[i], params)
        if isinstance(outcome, RowFault):
            detail = (
                f"{track.speaker}, attempt {attempt + 1} of {params.max_attempts}, {track.text!r}: {outcome.detail}"
            )
            outcomes.append(replace(outcome, detail=detail))
        else:
            outcomes.append({**outcome, "attempts": attempt + 1, "tts_seed": seeds[i]})
    return outcomes


def _check(track: _Track, reply: SpeechReply | RowFault, params: SynthesiseSpeech) -> _Candidate | RowFault:
    if isinstance(reply, RowFault):
        return _pass_on(reply, "speech_engine_fault")
    speech = accept_speech(reply.samples, reply.sampling_rate, track.text, params)
    if isinstance(speech, RowFault):
        return speech
    # What the recogniser hears is what will be stored, to the bit.
    values = quantise(speech)
    return _Candidate(values, dequantise(values), reply.sampling_rate)


def _judge(
    track: _Track, candidate: _Candidate, reply: RecognitionReply | RowFault, params: SynthesiseSpeech
) -> dict[str, Any] | RowFault:
    if isinstance(reply, RowFault):
        return _pass_on(reply, "recogniser_fault")
    # A text that was recognised to the letter has its words; normalising it is the dearest part of a good track.
    if reply.text != track.text and not normalise_text(reply.text, track.language):
        return find_no_words(reply)
    rates = measure_wer(track.text, reply.text, track.language)
    if rates.normalised > params.max_wer:
        detail = f"recognised as {reply.text!r}, word error rate {rates.normalised:.2f}"
        return RowFault("misrecognised", detail, reply.text)
    encode = encode_flac if params.track_encoding == "flac" else encode_wav
    return {
        "speaker": track.speaker,
        "voice": track.voice,
        "text": track.text,
        "audio": encode(candidate.values, candidate.rate),
        "sampling_rate": candidate.rate,
        "duration_s": len(candidate.samples) / candidate.rate,
        "level_dbfs": measure_rms_dbfs(candidate.samples),
        "recognised": reply.text,
        "wer_raw": rates.raw,
        "wer": rates.normalised,
        "recognition_temperature": reply.temperature,
    }


def _pass_on(fault: RowFault, otherwise: str) -> RowFault:
    """Return an engine's fault under its own reason if that is declared, else under the general one."""
    if fault.reason in _REASONS:
        return fault
    return RowFault(otherwise, f"{fault.reason}: {fault.detail}" if fault.detail else fault.reason, fault.raw_output)


def _join_tracks(
    n_rows: int, tracks: Sequence[_Track], results: Sequence[dict[str, Any] | RowFault]
) -> list[dict[str, Any] | RowFault]:
    """Return one outcome a row: its tracks, or the fault of the first that failed."""
    accepted: list[list[dict[str, Any]]] = [[] for _ in range(n_rows)]
    faults: dict[int, RowFault] = {}
    for track, result in zip(tracks, results, strict=True):
        if isinstance(result, RowFault):
            faults.setdefault(track.row, result)
        else:
            accepted[track.row].append(result)
    return [faults[i] if i in faults else {"tracks": accepted[i]} for i in range(n_rows)]


_REASONS = CHECK_REASONS | {
    "nothing_recognised",
    "misrecognised",
    "empty_text",
    "text_too_long_to_speak",
    "unsupported_language",
    "speech_engine_fault",
    "recogniser_fault",
}

STAGE = Stage(
    name=NAME,
    version=2,
    reads=VOICED,
    writes=SYNTHESISED,
    reasons=_REASONS,
    run=synthesise_speech,
    params_type=SynthesiseSpeech,
    engines=("speech", "recogniser"),
    uses=_USES,
)
