"""Which language model writes and judges, as data."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bystander.schemas.engine_config import EngineConfig
from bystander.schemas.field_types import TimeoutSeconds


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
