"""The configuration of training on TPI rows: data by mixture, and which model learns from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bystander.schemas.stages import Params
from bystander.schemas.training_config import TrainingConfig

RowPart = Literal["two_speaker", "dyadic", "hard_negative"]
"""Where a training row comes from: a pair of speakers, a request alone, or a pair's transcript in one voice."""
MixtureName = Literal["base", "va", "full"]

TwoInputs = Literal["text_and_sound", "text", "sound"]
"""What a model of two inputs perceives: both, or one of them alone, as a control."""
SoundFrames = Literal["speaker_windows", "log_mel"]
"""Embeddings of a speaker encoder over short windows (0.82 s every 0.2 s), or log-mel bands every 50 ms."""

MIXTURES: Mapping[MixtureName, tuple[RowPart, ...]] = {
    "base": ("two_speaker",),
    "va": ("two_speaker", "dyadic"),
    "full": ("two_speaker", "dyadic", "hard_negative"),
}
"""Parts of each mixture: TPI-Base, TPI-VA and TPI-Full of the TPI paper, section 5."""


class DyadicSource(Params):
    """Requests of one speaker with replies, in Parquet. Columns default to VoiceAssistant-400K's."""

    path: str = Field(min_length=1)
    """A build of dyadic rows, or a path, glob or fsspec URL to Parquet."""
    audio_column: str | None = None
    text_column: str | None = None
    reply_column: str | None = None


class LoraSettings(Params):
    """Low-rank adapters on all linear layers (TPI paper, appendix H)."""

    r: int = Field(16, ge=1, le=1024)
    alpha: float = Field(32.0, gt=0)
    dropout: float = Field(0.0, ge=0, lt=1)
    target_modules: str | tuple[str, ...] = "all-linear"
    """`all-linear`: every linear layer of the language model and of the audio encoder but its output head."""


class SpeechLmConfig(Params):
    """A speech-language model, fine-tuned to write the reply. Reference: Qwen2.5-Omni-7B, its thinker."""

    architecture: Literal["speech_lm"] = "speech_lm"
    model: str = "Qwen/Qwen2.5-Omni-7B"
    """A folder, or a name on the Hugging Face hub."""
    revision: str | None = None
    lora: LoraSettings | None = LoraSettings()
    """Null: all weights are trained."""
    max_length: int = Field(8192, ge=16)
    """Tokens of prompt, sound and reply; longer rows are left out and counted."""
    system_prompt: str | None = None
    user_prompt: str | None = None


class TwoInputConfig(Params):
    """A small model with two inputs, words and sound, that says what a clip holds: for experiments on a laptop.

    It chooses among `none` (one speaker: dyadic rows and hard negatives) and the classes of the data's pack.

    Words: what the row says, its primary text and then its third party's, without case, punctuation or any mark of who
    says what, as a recogniser would hand it over that hears every word. So twins have the same words. Sound: frames of
    the clip; where in it somebody else begins, the model has to find out.
    """

    architecture: Literal["two_input"] = "two_input"
    inputs: TwoInputs = "text_and_sound"
    """What it perceives; the branch of the other input is not built."""
    sound: SoundFrames = "speaker_windows"
    speaker_model: str = "voicefilter-lite-encoder"
    """Speaker encoder behind `speaker_windows`, of the model store."""
    flatten_level: bool = True
    """Whether each frame is brought to one level by itself, so that a step in level says nothing."""
    hash_buckets: int = Field(2048, ge=16, le=1_000_000)
    """Words and pairs of words share this many embeddings, by hash."""
    word_dropout: float = Field(0.1, ge=0, lt=1)
    """Share of the words left out, drawn anew each epoch."""
    hidden: int = Field(32, ge=2, le=1024)
    """Width of both branches."""
    dropout: float = Field(0.1, ge=0, lt=1)


TpiModelConfig = Annotated[SpeechLmConfig | TwoInputConfig, Field(discriminator="architecture")]


class TrainTpiConfig(TrainingConfig):
    """All that decides a model trained on TPI rows."""

    NAME_PREFIX: ClassVar[str] = "tpi"

    data: tuple[str, ...] = ()
    """Folders or URLs of finished TPI-Train builds."""
    dyadic: tuple[DyadicSource, ...] = ()
    mixture: MixtureName = "full"
    proportions: dict[RowPart, float] = Field(default_factory=dict)
    """How often each row of a part is seen an epoch: 0.5 for a random half, 2 for twice. 1 where nothing is said."""
    model: TpiModelConfig = SpeechLmConfig()
