"""Speech engines whose faults a test scripts, attempt by attempt."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bystander.schemas.engines import (
    EmbeddingRequest,
    EngineIdentity,
    RecognitionReply,
    RecognitionRequest,
    RowFault,
    Samples,
    SpeechReply,
    SpeechRequest,
    Voice,
)
from bystander.schemas.stages import Params, StageContext

RATE = 24000
SECONDS_PER_CHARACTER = 0.06

Flaw = Callable[[Samples], Samples] | RowFault


def make_context(params: Params, seed: int = 1, **engines: Any) -> StageContext:
    return StageContext(build_seed=seed, params=params, taxonomy=None, pack=None, engines=engines)  # type: ignore[arg-type]


class TonesInOrder:
    """Speaks a text as a tone whose pitch stands for it; `flaws[text]` spoil its first attempts."""

    identity = EngineIdentity("speech", "tones", "tones", "1")

    def __init__(self, flaws: Mapping[str, Sequence[Flaw | None]] | None = None, voices: Sequence[Voice] = ()) -> None:
        self._flaws = flaws or {}
        self._spoken: Counter[str] = Counter()
        self.voices = voices
        self.requests: list[SpeechRequest] = []
        self.batches: list[int] = []
        self.texts: dict[int, str] = {}

    def synthesise(self, requests: Sequence[SpeechRequest], on_reply: Any = None) -> list[SpeechReply | RowFault]:
        self.batches.append(len(requests))
        return [self._speak(request) for request in requests]

    def _speak(self, request: SpeechRequest) -> SpeechReply | RowFault:
        self.requests.append(request)
        pitch = 300 + int(hashlib.sha256(request.text.encode()).hexdigest(), 16) % 3000
        self.texts[pitch] = request.text
        count = round(SECONDS_PER_CHARACTER * len(request.text) * RATE)
        tone = 0.3 * np.sin(2 * np.pi * pitch * np.arange(count) / RATE)
        script = self._flaws.get(request.text, ())
        attempt = self._spoken[request.text]
        self._spoken[request.text] += 1
        flaw = script[attempt] if attempt < len(script) else None
        if isinstance(flaw, RowFault):
            return flaw
        samples = np.concatenate([np.zeros(2400), tone, np.zeros(2400)]).astype(np.float32)
        return SpeechReply(flaw(samples) if flaw else samples, RATE)

    def close(self) -> None: ...


class PitchReader:
    """Reads the text of a tone back; `answers[text]` are what it says instead, one a call."""

    identity = EngineIdentity("recogniser", "pitch", "pitch", "1")

    def __init__(
        self,
        speech: TonesInOrder,
        answers: Mapping[str, Sequence[str | RecognitionReply | RowFault]] | None = None,
    ) -> None:
        self._speech = speech
        self._answers = {text: list(replies) for text, replies in (answers or {}).items()}
        self.requests: list[RecognitionRequest] = []

    def recognise(
        self, requests: Sequence[RecognitionRequest], on_reply: Any = None
    ) -> list[RecognitionReply | RowFault]:
        return [self._read(request) for request in requests]

    def _read(self, request: RecognitionRequest) -> RecognitionReply | RowFault:
        self.requests.append(request)
        spectrum = np.abs(np.fft.rfft(request.samples, 8 * RATE))
        pitch = float(np.argmax(spectrum)) / 8
        text = self._speech.texts[min(self._speech.texts, key=lambda known: abs(known - pitch))]
        script = self._answers.get(text)
        answer = script.pop(0) if script else text
        return RecognitionReply(answer) if isinstance(answer, str) else answer

    def close(self) -> None: ...


class LoudnessVerifier:
    """Takes the peak of a clip for its speaker's angle in the plane: 0 is 0 degrees, 1.0 is 90."""

    identity = EngineIdentity("verifier", "peaks", "peaks", "1")
    min_duration_s = 0.2

    def __init__(self, fault: RowFault | None = None) -> None:
        self._fault = fault
        self.requests: list[EmbeddingRequest] = []
        self.batches: list[int] = []

    def embed(self, requests: Sequence[EmbeddingRequest]) -> list[Any]:
        self.batches.append(len(requests))
        return [self._embed(request) for request in requests]

    def _embed(self, request: EmbeddingRequest) -> Any:
        self.requests.append(request)
        if self._fault is not None:
            return self._fault
        if len(request.samples) < self.min_duration_s * request.sampling_rate:
            return RowFault("too_short_to_embed", f"{len(request.samples) / request.sampling_rate:.2f} s")
        angle = float(np.abs(request.samples).max()) * np.pi / 2
        return np.array([np.cos(angle), np.sin(angle)], np.float32)

    def close(self) -> None: ...
