"""Which engine serves a role, as data. Loading a config opens no model and imports no engine package."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from bystander.schemas.addresses import Addresses
from bystander.schemas.engine_config import EngineConfig
from bystander.schemas.engines import EngineRole
from bystander.schemas.field_types import TimeoutSeconds
from bystander.schemas.recogniser_configs import RecogniserConfig, VerifierConfig
from bystander.schemas.speech_engine_configs import SpeechEngineConfig
from bystander.schemas.stages import Params
from bystander.schemas.text_engine_configs import TextEngineConfig


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

    MODEL_IN_STORE = False
    SPEED_ONLY = frozenset({"base_url", "api_key_env", "max_in_flight", "timeout_s", "max_retries"})
    engine: Literal["openai_audio"] = "openai_audio"
    base_url: Addresses
    """One address, or several that serve the same model."""
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
    max_in_flight: int = Field(16, ge=1, le=1000)
    """Requests at once, at each address."""
    timeout_s: TimeoutSeconds = 120.0
    max_retries: int = Field(5, ge=0, le=100)


class TransformersAudioConfig(EngineConfig):
    """A model that `transformers` loads, on this machine; needs the extra `transformers`."""

    MODEL_IN_STORE = False
    SPEED_ONLY = frozenset({"device", "batch_size"})
    engine: Literal["transformers_audio"] = "transformers_audio"
    model: str = ""
    """Folder of the model, or its name on a hub. Empty: the one that `adapter` was trained on."""
    revision: str = ""
    adapter: str | None = None
    """Folder of a training run of `train tpi`, or of an adapter that peft saved; needs the extra `train`. Its bytes
    belong to the identity."""
    system_prompt: str | None = None
    """Null: the one that the model was trained with by us; else none."""
    user_prompt: str | None = None
    """As `system_prompt`."""
    max_tokens: int = Field(512, ge=1)
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str = "auto"
    batch_size: int = Field(1, ge=1)

    @model_validator(mode="after")
    def _names_a_model(self) -> TransformersAudioConfig:
        if not self.model and not self.adapter:
            raise ValueError("model is missing: a folder or a name on the hub; or give an adapter")
        return self


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
