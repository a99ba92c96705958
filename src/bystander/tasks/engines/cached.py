"""Engines that remember: each call is answered from a cache if it was ever made before."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from bystander.schemas.engines import (
    AnswerReply,
    AnswerRequest,
    CallCache,
    CandidateEngine,
    EngineIdentity,
    Recogniser,
    RecognitionReply,
    RecognitionRequest,
    RowFault,
    Samples,
    SpeechEngine,
    SpeechReply,
    SpeechRequest,
    SpokenWord,
    TextEngine,
    TextReply,
    TextRequest,
    Voice,
)
from bystander.schemas.identity import digest_json
from bystander.tasks.engines.engine_audio import quantise

_LAYOUT = "1"
"""Part of every key: raised when stored replies are encoded in another way."""
_END_OF_WORDS = b"\n"


class _Engine(Protocol):
    """What the engines of all kinds have in common."""

    @property
    def identity(self) -> EngineIdentity: ...

    def close(self) -> None: ...


_E = TypeVar("_E", bound=_Engine)
_Request = TypeVar("_Request")
_Reply = TypeVar("_Reply")


class _CachedEngine(Generic[_E, _Request, _Reply]):
    """Serves batches from a cache and forwards what is missing as one batch to the engine.

    `hits` and `misses` count requests; an equal one in a batch is a hit.
    """

    kind: str
    """Part of every key."""

    def __init__(self, engine: _E, cache: CallCache) -> None:
        self._engine = engine
        self._cache = cache
        self._prefix = engine.identity.digest()
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    @property
    def identity(self) -> EngineIdentity:
        """The inner engine's."""
        return self._engine.identity

    def close(self) -> None:
        """Close the inner engine; the cache is its opener's."""
        self._engine.close()

    @abstractmethod
    def _describe(self, request: _Request) -> list[Any]:
        """Return all that decides the reply, as JSON-ready data."""

    @abstractmethod
    def _encode(self, reply: _Reply) -> bytes | None:
        """Return a reply's bytes; None if it cannot be kept."""

    @abstractmethod
    def _decode(self, data: bytes) -> _Reply:
        """Return the reply again; raises ValueError if it is damaged."""

    def _serve(
        self,
        requests: Sequence[_Request],
        call: Callable[[Sequence[_Request], Callable[[int, _Reply], None]], Sequence[_Reply | RowFault]],
        on_reply: Callable[[int, _Reply], None] | None,
    ) -> list[_Reply | RowFault]:
        """Return one reply or fault a request, in order.

        Each fresh reply is kept before `on_reply` hears of it. Faults are not kept: the next run may do better.
        """
        outcomes: dict[int, _Reply | RowFault] = {}
        places: dict[str, list[int]] = {}
        for index, request in enumerate(requests):
            places.setdefault(digest_json([_LAYOUT, self.kind, self._prefix, *self._describe(request)]), []).append(
                index
            )

        def deliver(key: str, reply: _Reply) -> None:
            for index in places[key]:
                outcomes[index] = reply
                if on_reply is not None:
                    on_reply(index, reply)

        missing: list[str] = []
        for key in places:
            known = self._recall(key)
            if known is None:
                missing.append(key)
            else:
                deliver(key, known)
        with self._lock:
            self.misses += len(missing)
            self.hits += len(requests) - len(missing)
        if not missing:
            return [outcomes[index] for index in range(len(requests))]

        def keep(position: int, reply: _Reply) -> None:
            key = missing[position]
            encoded = self._encode(reply)
            if encoded is not None:
                self._cache.put(key, encoded)
                reply = self._decode(encoded)  # what a hit would give, to the last bit
            deliver(key, reply)

        fresh = call([requests[places[key][0]] for key in missing], keep)
        for position, (key, outcome) in enumerate(zip(missing, fresh, strict=True)):
            if isinstance(outcome, RowFault):
                outcomes.update(dict.fromkeys(places[key], outcome))
            elif places[key][0] not in outcomes:
                keep(position, outcome)
        return [outcomes[index] for index in range(len(requests))]

    def _recall(self, key: str) -> _Reply | None:
        encoded = self._cache.get(key)
        if encoded is None:
            return None
        try:
            return self._decode(encoded)
        except ValueError:
            return None


class CachedTextEngine(_CachedEngine[TextEngine, TextRequest, TextReply]):
    """A `TextEngine` over another and a cache."""

    kind = "text"

    def generate(
        self, requests: Sequence[TextRequest], on_reply: Callable[[int, TextReply], None] | None = None
    ) -> list[TextReply | RowFault]:
        """Return one reply or fault a request, in order; raises what the inner engine raises."""
        return self._serve(requests, self._engine.generate, on_reply)

    def _describe(self, request: TextRequest) -> list[Any]:
        return [request.describe()]

    def _encode(self, reply: TextReply) -> bytes | None:
        return _encode_fields(reply)

    def _decode(self, data: bytes) -> TextReply:
        return _decode_fields(TextReply, data)


class CachedSpeechEngine(_CachedEngine[SpeechEngine, SpeechRequest, SpeechReply]):
    """A `SpeechEngine` over another and a cache.

    Clips are kept as 16-bit FLAC, and a fresh clip comes back as that FLAC reads, so fresh and kept samples are equal.
    Word times stand before it as JSON. They are asked for under a key of their own, so that clips kept without them
    stay good for whoever needs none.
    """

    kind = "speech"

    @property
    def voices(self) -> Sequence[Voice]:
        """The inner engine's."""
        return self._engine.voices

    def synthesise(
        self, requests: Sequence[SpeechRequest], on_reply: Callable[[int, SpeechReply], None] | None = None
    ) -> list[SpeechReply | RowFault]:
        """Return one reply or fault a request, in order; raises what the inner engine raises."""
        return self._serve(requests, self._engine.synthesise, on_reply)

    def _describe(self, request: SpeechRequest) -> list[Any]:
        return [request.describe()]

    def _encode(self, reply: SpeechReply) -> bytes | None:
        return _encode_clip(reply)

    def _decode(self, data: bytes) -> SpeechReply:
        return _decode_clip(data)


class CachedRecogniser(_CachedEngine[Recogniser, RecognitionRequest, RecognitionReply]):
    """A `Recogniser` over another and a cache; audio is known by a hash of its samples.

    Replies that were kept before temperatures were are those of engines that decoded at temperature 0 alone.
    """

    kind = "recognition"

    def recognise(
        self, requests: Sequence[RecognitionRequest], on_reply: Callable[[int, RecognitionReply], None] | None = None
    ) -> list[RecognitionReply | RowFault]:
        """Return one reply or fault a request, in order; raises what the inner engine raises."""
        return self._serve(requests, self._engine.recognise, on_reply)

    def _describe(self, request: RecognitionRequest) -> list[Any]:
        return [_hash_samples(request.samples), request.sampling_rate, request.language]

    def _encode(self, reply: RecognitionReply) -> bytes | None:
        return _encode_fields(reply)

    def _decode(self, data: bytes) -> RecognitionReply:
        reply = _decode_fields(RecognitionReply, data)
        if reply.temperature is None and reply.mean_logprob is not None and b'"temperature"' not in data:
            return dataclasses.replace(reply, temperature=0.0)
        return reply


class CachedCandidate(_CachedEngine[CandidateEngine, AnswerRequest, AnswerReply]):
    """A `CandidateEngine` that hears over another and a cache; a clip is known by a hash of its samples.

    Neither the row's id nor its texts are part of the key, since a system that is evaluated sees neither. So it does
    not do for stand-ins, which read them: those keep the calls of their text engine.
    """

    kind = "candidate"

    def answer(
        self, requests: Sequence[AnswerRequest], on_reply: Callable[[int, AnswerReply], None] | None = None
    ) -> list[AnswerReply | RowFault]:
        """Return one reply or fault a request, in order; raises what the inner engine raises."""
        return self._serve(requests, self._engine.answer, on_reply)

    def _describe(self, request: AnswerRequest) -> list[Any]:
        return [_hash_samples(request.samples), request.sampling_rate, request.seed]

    def _encode(self, reply: AnswerReply) -> bytes | None:
        return _encode_fields(reply)

    def _decode(self, data: bytes) -> AnswerReply:
        return _decode_fields(AnswerReply, data)


def _hash_samples(samples: Samples) -> str:
    return hashlib.sha256(np.ascontiguousarray(samples, dtype="<f4").tobytes()).hexdigest()


def _encode_fields(reply: TextReply | RecognitionReply | AnswerReply) -> bytes | None:
    fields = {field.name: getattr(reply, field.name) for field in dataclasses.fields(reply)}
    try:
        return json.dumps(fields, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")
    except ValueError:  # NaN, or lone surrogates
        return None


def _decode_fields(kind: type[_Reply], data: bytes) -> _Reply:
    fields = json.loads(data)
    try:
        return kind(**fields)
    except TypeError as exc:
        raise ValueError(f"no {kind.__name__}") from exc


def _encode_clip(reply: SpeechReply) -> bytes | None:
    import soundfile

    if not len(reply.samples) or not math.isfinite(float(np.sum(reply.samples, dtype=np.float64))):
        return None
    stream = io.BytesIO()
    soundfile.write(stream, quantise(reply.samples), reply.sampling_rate, format="FLAC", subtype="PCM_16")
    if reply.words is None:
        return stream.getvalue()
    words = json.dumps([[word.word, word.start_s, word.end_s] for word in reply.words])
    return words.encode("ascii") + _END_OF_WORDS + stream.getvalue()


def _decode_clip(data: bytes) -> SpeechReply:
    import soundfile

    words: tuple[SpokenWord, ...] | None = None
    if data[:1] == b"[":  # FLAC begins with its own name
        head, _, data = data.partition(_END_OF_WORDS)
        try:
            words = tuple(SpokenWord(str(word), float(start), float(end)) for word, start, end in json.loads(head))
        except (TypeError, ValueError) as exc:
            raise ValueError("no word times") from exc
    try:
        samples, sampling_rate = soundfile.read(io.BytesIO(data), dtype="int16")
    except soundfile.LibsndfileError as exc:
        raise ValueError("no FLAC clip") from exc
    return SpeechReply(samples.astype(np.float32) / np.float32(32768), int(sampling_rate), words)
