"""Engines that remember: each call is answered from a cache if it was ever made before."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from bystander.schemas.engines import (
    CallCache,
    EngineIdentity,
    Recogniser,
    RecognitionReply,
    RecognitionRequest,
    RowFault,
    SpeechEngine,
    SpeechReply,
    SpeechRequest,
    TextEngine,
    TextReply,
    TextRequest,
    Voice,
)
from bystander.schemas.identity import digest_json

_LAYOUT = "1"
"""Part of every key: raised when stored replies are encoded in another way."""

_Request = TypeVar("_Request")
_Reply = TypeVar("_Reply")


class _Memory(Generic[_Request, _Reply]):
    """Serves batches from a cache and forwards what is missing as one batch."""

    def __init__(
        self,
        cache: CallCache,
        name_call: Callable[[_Request], str],
        encode: Callable[[_Reply], bytes | None],
        decode: Callable[[bytes], _Reply],
    ) -> None:
        """`encode` returns None for a reply that cannot be kept; `decode` raises ValueError for a damaged one."""
        self._cache = cache
        self._name_call = name_call
        self._encode = encode
        self._decode = decode
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    def serve(
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
            places.setdefault(self._name_call(request), []).append(index)

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


class CachedTextEngine:
    """A `TextEngine` over another and a cache. `hits` and `misses` count requests; an equal one in a batch is a hit."""

    def __init__(self, engine: TextEngine, cache: CallCache) -> None:
        self._engine = engine
        prefix = engine.identity.digest()
        self._memory: _Memory[TextRequest, TextReply] = _Memory(
            cache,
            lambda request: digest_json([_LAYOUT, "text", prefix, request.describe()]),
            _encode_fields,
            lambda data: _decode_fields(TextReply, data),
        )

    @property
    def identity(self) -> EngineIdentity:
        """The inner engine's."""
        return self._engine.identity

    @property
    def hits(self) -> int:
        return self._memory.hits

    @property
    def misses(self) -> int:
        return self._memory.misses

    def generate(
        self, requests: Sequence[TextRequest], on_reply: Callable[[int, TextReply], None] | None = None
    ) -> list[TextReply | RowFault]:
        """Return one reply or fault a request, in order; raises what the inner engine raises."""
        return self._memory.serve(requests, self._engine.generate, on_reply)

    def close(self) -> None:
        """Close the inner engine; the cache is its opener's."""
        self._engine.close()


class CachedSpeechEngine:
    """A `SpeechEngine` over another and a cache.

    Clips are kept as 16-bit FLAC, and a fresh clip comes back as that FLAC reads, so fresh and kept samples are equal.
    """

    def __init__(self, engine: SpeechEngine, cache: CallCache) -> None:
        self._engine = engine
        prefix = engine.identity.digest()
        self._memory: _Memory[SpeechRequest, SpeechReply] = _Memory(
            cache,
            lambda request: digest_json([_LAYOUT, "speech", prefix, request.describe()]),
            _encode_clip,
            _decode_clip,
        )

    @property
    def identity(self) -> EngineIdentity:
        """The inner engine's."""
        return self._engine.identity

    @property
    def voices(self) -> Sequence[Voice]:
        """The inner engine's."""
        return self._engine.voices

    @property
    def hits(self) -> int:
        return self._memory.hits

    @property
    def misses(self) -> int:
        return self._memory.misses

    def synthesise(
        self, requests: Sequence[SpeechRequest], on_reply: Callable[[int, SpeechReply], None] | None = None
    ) -> list[SpeechReply | RowFault]:
        """Return one reply or fault a request, in order; raises what the inner engine raises."""
        return self._memory.serve(requests, self._engine.synthesise, on_reply)

    def close(self) -> None:
        """Close the inner engine; the cache is its opener's."""
        self._engine.close()


class CachedRecogniser:
    """A `Recogniser` over another and a cache; audio is known by a hash of its samples."""

    def __init__(self, engine: Recogniser, cache: CallCache) -> None:
        self._engine = engine
        prefix = engine.identity.digest()
        self._memory: _Memory[RecognitionRequest, RecognitionReply] = _Memory(
            cache,
            lambda request: digest_json([_LAYOUT, "recognition", prefix, *_describe_audio(request)]),
            _encode_fields,
            lambda data: _decode_fields(RecognitionReply, data),
        )

    @property
    def identity(self) -> EngineIdentity:
        """The inner engine's."""
        return self._engine.identity

    @property
    def hits(self) -> int:
        return self._memory.hits

    @property
    def misses(self) -> int:
        return self._memory.misses

    def recognise(
        self, requests: Sequence[RecognitionRequest], on_reply: Callable[[int, RecognitionReply], None] | None = None
    ) -> list[RecognitionReply | RowFault]:
        """Return one reply or fault a request, in order; raises what the inner engine raises."""
        return self._memory.serve(requests, self._engine.recognise, on_reply)

    def close(self) -> None:
        """Close the inner engine; the cache is its opener's."""
        self._engine.close()


def _describe_audio(request: RecognitionRequest) -> list[Any]:
    samples = np.ascontiguousarray(request.samples, dtype="<f4")
    return [hashlib.sha256(samples.tobytes()).hexdigest(), request.sampling_rate, request.language]


def _encode_fields(reply: TextReply | RecognitionReply) -> bytes | None:
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
    scaled = np.clip(np.rint(reply.samples * np.float32(32768)), -32768, 32767).astype(np.int16)
    stream = io.BytesIO()
    soundfile.write(stream, scaled, reply.sampling_rate, format="FLAC", subtype="PCM_16")
    return stream.getvalue()


def _decode_clip(data: bytes) -> SpeechReply:
    import soundfile

    try:
        samples, sampling_rate = soundfile.read(io.BytesIO(data), dtype="int16")
    except soundfile.LibsndfileError as exc:
        raise ValueError("no FLAC clip") from exc
    return SpeechReply(samples=samples.astype(np.float32) / np.float32(32768), sampling_rate=int(sampling_rate))
