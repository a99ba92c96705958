"""What every Whisper engine does with a request before its model hears it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from bystander.schemas.engines import RecognitionReply, RecognitionRequest, RowFault, Samples
from bystander.tasks.engines.engine_audio import convert_rate, measure_peak_level
from bystander.tasks.engines.hallucination_guards import SILENCE_DBFS, HeardClip

SAMPLING_RATE = 16000
WINDOW_S = 30.0
"""What Whisper hears at once."""


@dataclass(frozen=True, slots=True)
class WhisperClip:
    """A clip as Whisper hears it: shape (n,), float32, 16 kHz."""

    audio: Samples
    language: str
    heard: HeardClip

    @property
    def fits_window(self) -> bool:
        return len(self.audio) <= WINDOW_S * SAMPLING_RATE


def prepare_clip(
    request: RecognitionRequest, model: str, multilingual: bool, languages: Container[str]
) -> WhisperClip | RecognitionReply | RowFault:
    """Return the clip to be heard; an empty reply where it is near-silence, or why it cannot be heard.

    Row faults: `empty_audio` (no samples), `non_finite_audio`, `unsupported_language`.
    """
    if len(request.samples) == 0:
        return RowFault("empty_audio", "the clip has no samples")
    if not np.isfinite(request.samples).all():
        return RowFault("non_finite_audio", "the clip has samples that are no numbers")
    language = request.language.split("-")[0]
    if language != "en" and not multilingual:
        return RowFault(
            "unsupported_language",
            f"{model} hears en only, not {language}; set the recogniser's model to a multilingual one "
            "such as whisper-base-ct2",
        )
    if language not in languages:
        return RowFault("unsupported_language", f"{model} does not know the language {language!r}")
    level = measure_peak_level(request.samples, request.sampling_rate)
    if level < SILENCE_DBFS:
        return RecognitionReply("")
    return WhisperClip(
        convert_rate(request.samples, request.sampling_rate, SAMPLING_RATE),
        language,
        HeardClip(len(request.samples) / request.sampling_rate, level),
    )


def plan_batches(clips: Mapping[int, WhisperClip], batch_size: int) -> list[list[int]]:
    """Return which clips to decode together, by their keys: of one language, and longer ones alone."""
    batches = [[key] for key, clip in clips.items() if not clip.fits_window]
    by_language: dict[str, list[int]] = {}
    for key, clip in clips.items():
        if clip.fits_window:
            by_language.setdefault(clip.language, []).append(key)
    for _, keys in sorted(by_language.items()):
        batches += [keys[start : start + batch_size] for start in range(0, len(keys), batch_size)]
    return batches


def hear_in_batches(
    prepared: Iterable[WhisperClip | RecognitionReply | RowFault],
    hear: Callable[[Sequence[WhisperClip]], Sequence[RecognitionReply]],
    pool: Executor,
    batch_size: int,
    on_reply: Callable[[int, RecognitionReply], None] | None,
) -> list[RecognitionReply | RowFault]:
    """Have all that `prepare_clip` returned clips for heard, in batches on the threads of `pool`; return what became of
    each request, in order.
    """
    outcomes: dict[int, RecognitionReply | RowFault] = {}

    def deliver(index: int, outcome: RecognitionReply | RowFault) -> None:
        outcomes[index] = outcome
        if on_reply is not None and isinstance(outcome, RecognitionReply):
            on_reply(index, outcome)

    clips: dict[int, WhisperClip] = {}
    for index, one in enumerate(prepared):
        if isinstance(one, WhisperClip):
            clips[index] = one
        else:
            deliver(index, one)

    def hear_batch(batch: Sequence[int]) -> None:
        for index, reply in zip(batch, hear([clips[index] for index in batch]), strict=True):
            deliver(index, reply)

    for _ in pool.map(hear_batch, plan_batches(clips, batch_size)):
        pass
    return [outcomes[index] for index in range(len(outcomes))]
