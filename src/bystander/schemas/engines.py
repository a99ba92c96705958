"""What a stage may ask of an engine: requests, replies and one Protocol for each kind of engine.

An engine is called with a batch of requests and returns as many replies, in the same order. A request that
fails alone comes back as a `RowFault`; when the engine as a whole fails it raises an `EngineError`.
`on_reply(index, reply)` is called as soon as one reply is there, from any thread, so that a cache can keep it
before the batch is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from bystander.schemas.identity import digest_json

Samples = npt.NDArray[np.float32]
"""Mono audio: shape (n,), float32, range [-1, 1]."""

EngineRole = Literal[
    "writer",
    "judge",
    "speech",
    "recogniser",
    "verifier",
    "candidate",
    "decoder",
    "vad",
    "tagger",
    "second_tagger",
    "aligner",
    "second_aligner",
    "detector",
]
"""What an engine is used for: `writer` writes texts, `judge` filters and scores them (it may be a reasoning model);
`candidate` is a system that is evaluated. Of SID: `decoder` reads recordings, `vad` finds speech in them, `tagger` and
`second_tagger` find the word with new intent in a turn, `aligner` and `second_aligner` when it is said; `detector` is
what is evaluated."""


@dataclass(frozen=True, slots=True)
class EngineIdentity:
    """Names everything about an engine that changes its outputs, and nothing else (no address, no thread count)."""

    kind: str
    name: str
    model: str
    revision: str
    settings: tuple[tuple[str, str], ...] = ()

    def digest(self) -> str:
        """Return the digest that cache keys and fingerprints use."""
        return digest_json([self.kind, self.name, self.model, self.revision, [list(s) for s in self.settings]])

    def describe(self) -> dict[str, Any]:
        """Return the identity as JSON-ready data for manifests and cards."""
        return {
            "kind": self.kind,
            "name": self.name,
            "model": self.model,
            "revision": self.revision,
            "settings": dict(self.settings),
        }


@dataclass(frozen=True, slots=True)
class RowFault:
    """One request failed; the others of its batch did not.

    `reason` is a stable snake_case code that ends up in the rejects; `raw_output` is what the model said, if anything.
    """

    reason: str
    detail: str = ""
    raw_output: str | None = None


ENGINE_REASONS = frozenset({"outside_coverage", "reply_too_long", "unparsable_reply", "empty_reply", "request_refused"})
"""Reasons of the `RowFault`s that a text engine may answer with.

`outside_coverage`: the engine has nothing authored for this request; `reply_too_long`: cut off at `max_tokens`, or
looping; `unparsable_reply`: not the JSON or the option asked for; `request_refused`: the server rejects the request.
"""

# ---- text ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class TextRequest:
    """One call of a language model.

    With `options`, the engine does not write: it returns a probability for each option as the next answer (from
    token log-probabilities where the server offers them, else from a constrained answer). Otherwise it writes, and with
    `reply_schema` the reply is JSON that fits this JSON schema.

    `task` and `variables` say what the prompt was rendered from; model servers ignore them, the playbook reads them.
    """

    task: str
    messages: tuple[Message, ...]
    seed: int
    variables: Mapping[str, str] = field(default_factory=dict)
    reply_schema: Mapping[str, Any] | None = None
    options: tuple[str, ...] = ()
    max_tokens: int = 256
    temperature: float = 0.7
    top_p: float = 0.9

    def describe(self) -> dict[str, Any]:
        """Return all that decides the reply, as JSON-ready data (the cache key is its digest)."""
        return {
            "task": self.task,
            "messages": [[m.role, m.content] for m in self.messages],
            "seed": self.seed,
            "variables": dict(self.variables),
            "reply_schema": self.reply_schema,
            "options": list(self.options),
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
        }


@dataclass(frozen=True, slots=True)
class TextReply:
    """What the model answered.

    `value` is the parsed JSON object when a schema was given. `option_probs` (summing to 1) is there when options were
    given; `option_source` says whether they are measured log-probabilities or a bare answer (then 1 and 0).
    `reasoning` is a reasoning model's thinking, split off from the answer.
    """

    text: str
    value: Mapping[str, Any] | None = None
    option_probs: Mapping[str, float] | None = None
    option_source: Literal["logprobs", "answer"] | None = None
    reasoning: str | None = None
    repaired: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0


@runtime_checkable
class TextEngine(Protocol):
    """A language model."""

    @property
    def identity(self) -> EngineIdentity: ...

    def generate(
        self, requests: Sequence[TextRequest], on_reply: Callable[[int, TextReply], None] | None = None
    ) -> list[TextReply | RowFault]: ...

    def close(self) -> None: ...


# ---- speech -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Voice:
    """A voice that a speech engine can speak in."""

    id: str
    language: str
    gender: Literal["female", "male"] | None = None
    source: str = ""
    licence: str = ""
    embedding: bytes = field(default=b"", repr=False)
    """Speaker embedding, shape (d,), little-endian float32, L2 norm 1; empty where none is known. As bytes, because a
    voice is hashed and compared."""


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """Speak `text` in a voice. The same request gives the same samples, whether or not word times are asked for."""

    text: str
    voice: str
    seed: int
    language: str = "en"
    word_times: bool = False
    """Whether the reply is to say when each word is spoken, as far as the engine can tell."""

    def describe(self) -> dict[str, Any]:
        """Return all that decides the reply, as JSON-ready data."""
        described = {"text": self.text, "voice": self.voice, "seed": self.seed, "language": self.language}
        return {**described, "word_times": True} if self.word_times else described


@dataclass(frozen=True, slots=True)
class SpokenWord:
    """A word of a text that was spoken, as written (`tasks.texts.turn_words`); seconds from the first sample."""

    word: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class SpeechReply:
    """Synthesised speech at `sampling_rate` Hz, untrimmed.

    `words` are all words of the text in order, starts not falling, where word times were asked for and the engine can
    tell them; else None.
    """

    samples: Samples
    sampling_rate: int
    words: tuple[SpokenWord, ...] | None = None


@runtime_checkable
class SpeechEngine(Protocol):
    """A text-to-speech model."""

    @property
    def identity(self) -> EngineIdentity: ...

    @property
    def voices(self) -> Sequence[Voice]:
        """All voices, ordered by id."""
        ...

    def synthesise(
        self, requests: Sequence[SpeechRequest], on_reply: Callable[[int, SpeechReply], None] | None = None
    ) -> list[SpeechReply | RowFault]: ...

    def close(self) -> None: ...


# ---- recognition --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecognitionRequest:
    """Audio to transcribe."""

    samples: Samples
    sampling_rate: int
    language: str = "en"


@dataclass(frozen=True, slots=True)
class RecognitionReply:
    """A transcript. `no_speech_prob` and `mean_logprob` are the model's own doubts, where it states them.

    `temperature` is that at which the text was decoded, the highest where there were several: 0 is no sampling, None
    where nothing was decoded. A text that is taken for made up is not `text`, which is then empty, but `withheld`, and
    `withheld_as` is the rule that found it (`tasks.engines.hallucination_guards`).
    """

    text: str
    mean_logprob: float | None = None
    no_speech_prob: float | None = None
    temperature: float | None = None
    withheld: str | None = None
    withheld_as: str | None = None


@runtime_checkable
class Recogniser(Protocol):
    """A speech recogniser."""

    @property
    def identity(self) -> EngineIdentity: ...

    def recognise(
        self, requests: Sequence[RecognitionRequest], on_reply: Callable[[int, RecognitionReply], None] | None = None
    ) -> list[RecognitionReply | RowFault]: ...

    def close(self) -> None: ...


# ---- speaker verification -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """Audio whose speaker is to be embedded."""

    samples: Samples
    sampling_rate: int


@runtime_checkable
class SpeakerVerifier(Protocol):
    """A speaker-embedding model; two clips are compared by the dot product of their embeddings."""

    @property
    def identity(self) -> EngineIdentity: ...

    @property
    def min_duration_s(self) -> float:
        """Shorter clips come back as a `RowFault` with reason `too_short_to_embed`."""
        ...

    def embed(self, requests: Sequence[EmbeddingRequest]) -> list[npt.NDArray[np.float32] | RowFault]:
        """Return embeddings of shape (d,), float32, L2 norm 1."""
        ...

    def close(self) -> None: ...


# ---- systems that are evaluated -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """A clip that a voice assistant is to answer.

    `id` and `variables` say which row of a bench it is and what was said in it. A model that is evaluated must not see
    them: only stand-ins, which are no models, and files of predictions read them.
    """

    id: str
    samples: Samples
    sampling_rate: int
    seed: int
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnswerReply:
    """What a voice assistant answered, as text."""

    text: str


@runtime_checkable
class CandidateEngine(Protocol):
    """A voice assistant that hears one turn and answers it."""

    @property
    def identity(self) -> EngineIdentity: ...

    def answer(
        self, requests: Sequence[AnswerRequest], on_reply: Callable[[int, AnswerReply], None] | None = None
    ) -> list[AnswerReply | RowFault]: ...

    def close(self) -> None: ...


# ---- cache of calls -----------------------------------------------------------------------------------------


class CallCache(Protocol):
    """Keeps the encoded replies of single engine calls. Safe to use from several threads at once."""

    def get(self, key: str) -> bytes | None:
        """Return what was put under `key`, or None if there is nothing or it is damaged."""
        ...

    def put(self, key: str, value: bytes) -> None:
        """Keep `value` under `key`, in place of an earlier one. It survives the death of the process right away."""
        ...
