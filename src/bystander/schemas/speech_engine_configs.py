"""Which text-to-speech model speaks, as data."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from bystander.schemas.engine_config import EngineConfig


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
    """Deterministic sound; the fake recogniser reads its text back, the fake verifier its voice.

    Instant, or with `seconds_per_clip` as slow as a real engine: `workers / seconds_per_clip` clips a second.
    """

    SPEED_ONLY = frozenset({"seconds_per_clip", "workers"})
    engine: Literal["fake_speech"] = "fake_speech"
    voices: int = Field(8, ge=2, le=32)
    languages: tuple[str, ...] = Field(("en",), min_length=1)
    """Of the voices, two after two."""
    seconds_per_clip: float = Field(0.0, ge=0)
    """How long a worker pretends to need for a clip."""
    workers: int = Field(1, ge=1, le=10_000)
    """Clips that it pretends to speak at once."""


SpeechEngineConfig = Annotated[KokoroSpeechConfig | FakeSpeechConfig, Field(discriminator="engine")]
