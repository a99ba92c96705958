"""The configuration of training a detector of interruptions on SID rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from bystander.schemas.config import lay_over, list_profiles_of, read_profile, validate_fields
from bystander.schemas.sid_lm_config import SidLmConfig
from bystander.schemas.stages import Params
from bystander.schemas.training_config import Optimisation, TrainingConfig

_PROFILES = resources.files("bystander.schemas") / "profiles" / "train" / "sid"


class CropSettings(Params):
    """How crops of an utterance are drawn and labelled (SID paper, IV-B; where it gives no figure, ours)."""

    an_utterance: int = Field(8, ge=2, le=1000)
    """Crops of each utterance an epoch."""
    shift_words: int = Field(1, ge=0, le=20)
    """Words by which the label's break lies behind the row's: some context confirms an intent."""
    near_share: float = Field(0.5, ge=0, le=1)
    """Share of the crops that end near the label's break."""
    near_width_s: float = Field(0.4, gt=0, le=10)
    """Standard deviation of those ends around it."""
    min_s: float = Field(0.2, gt=0, le=10)
    """No crop is shorter."""


class Augmentation(Params):
    """How training clips are varied, so that a small network learns speech and not a synthesiser's voices.

    Ranges are drawn from evenly, a clip and epoch; shares are of the clips. What is held out is never varied.
    """

    joined_share: float = Field(0.3, ge=0, le=1)
    """Put after the backchannel of another clip of the language, as far as the one that is drawn is a backchannel."""
    joined_gap_s: tuple[float, float] = (0.1, 0.6)
    """Pause between the two."""
    speed: tuple[float, float] = (0.85, 1.2)
    """Slower or faster, and with it lower or higher: other speakers."""
    lead_s: tuple[float, float] = (0.0, 0.8)
    """Put before the clip: a stream does not begin just before its speech."""
    room_share: float = Field(0.3, ge=0, le=1)
    """Heard from within a room, whose echo is drawn."""
    line_share: float = Field(0.25, ge=0, le=1)
    """Heard through a narrow line, as a telephone's."""
    noise_snr_db: tuple[float, float] = (8.0, 50.0)
    """Level of speech above steady noise, white to brown, that each clip gets."""
    gain_db: tuple[float, float] = (-18.0, 4.0)
    versions: int | None = Field(None, ge=1, le=1000)
    """Of each clip, drawn once; an epoch has one of them, the first of which is the clip as it is. Null: each epoch has
    a new one, for which features are computed anew."""

    @model_validator(mode="after")
    def _ranges_ascend(self) -> Augmentation:
        for name in ("joined_gap_s", "speed", "lead_s", "noise_snr_db", "gain_db"):
            lowest, highest = getattr(self, name)
            if lowest > highest:
                raise ValueError(f"{name}: give two numbers, the smaller first, not {lowest}, {highest}")
        if not 0.5 <= self.speed[0] <= self.speed[1] <= 2.0 or not 0 <= self.lead_s[0] <= self.lead_s[1] <= 10:
            raise ValueError("speed: two numbers from 0.5 to 2; lead_s: two from 0 to 10")
        return self


class RecurrentConfig(Params):
    """A small causal network over log-mel frames or a recogniser's encoding, without torch: for a laptop."""

    architecture: Literal["recurrent"] = "recurrent"
    features: Literal["log_mel", "recogniser"] = "log_mel"
    """What it hears: log-mel frames, or what the encoder of a recogniser makes of the last 1.28 s every 80 ms, which
    tells words apart better and voices less, at about 13 ms of a core a step."""
    recogniser: str = Field("whisper-base-ct2", min_length=1)
    """Of `features: recogniser`: a Whisper model of CTranslate2, of the store or a folder."""
    mel_bands: int = Field(40, ge=8, le=128)
    context_steps: int = Field(1, ge=0, le=25)
    """Steps before its own that the convolution sees at once."""
    hidden: int = Field(64, ge=4, le=1024)
    layers: int = Field(1, ge=1, le=4)
    """Of gated recurrent units."""
    dropout: float = Field(0.2, ge=0, lt=1)
    augmentation: Augmentation | None = Augmentation()
    """Null trains on the clips as they are."""
    varied_thresholds: int = Field(2, ge=0, le=100)
    """Varied versions of each held-out clip on which the threshold is chosen too, all of them counting as much as the
    clips as they are: a threshold for clean sound alone is too low for rooms and lines. Without augmentation, none."""
    folds: int = Field(1, ge=1, le=20)
    """Above 1, voices are dealt into so many folds, and a network is trained without each. The detector's answer is the
    mean of theirs; its threshold is chosen on all clips, each heard by the network that does not know its voice."""


class RecurrentFolder(Params):
    """`config.json` of a trained recurrent detector's folder."""

    architecture: Literal["recurrent"] = "recurrent"
    version: Literal[1] = 1
    """Of its features and its graph."""
    features: Literal["log_mel", "recogniser"] = "log_mel"
    recogniser: str | None = None
    """The model whose encoding it hears, as it was named in training."""
    recogniser_revision: str | None = None
    """Of that model: another's encoding means nothing to this network."""
    mel_bands: int = Field(ge=1)
    """Numbers of a frame: of `features: recogniser`, the width of the encoding."""
    context_steps: int = Field(ge=0)
    hidden: int = Field(ge=1)
    layers: int = Field(ge=1)
    members: int = Field(1, ge=1)
    """Networks whose mean is the answer."""
    chunk_s: float = Field(gt=0, le=10)
    """Chunks that it was made to hear a stream in."""
    k: int = Field(ge=1)
    """Positive chunks in a row that its threshold was chosen for."""
    threshold: float = Field(0.5, gt=0, lt=1)
    """Least probability of a positive chunk."""


SidModelConfig = Annotated[SidLmConfig | RecurrentConfig, Field(discriminator="architecture")]


class TrainSidConfig(TrainingConfig):
    """All that decides a trained detector of interruptions."""

    NAME_PREFIX: ClassVar[str] = "sid"

    data: tuple[str, ...] = ()
    """Folders or URLs of finished builds of SID rows."""
    crops: CropSettings = CropSettings()
    chunk_s: float = Field(0.16, gt=0, le=10)
    """Length of the chunks in which it hears a stream."""
    k: int = Field(3, ge=1, le=1000)
    """Positive chunks in a row before it stops (SID paper, IV-C)."""
    model: SidModelConfig = RecurrentConfig()
    alignment: Optimisation | None = None
    """Stage 1 of `sid_lm`, on transcripts, before the detection that `optimisation` is about; null leaves it out."""

    @model_validator(mode="after")
    def _fold_alone(self) -> Self:
        if isinstance(self.model, RecurrentConfig) and self.model.folds > 1:
            if self.held_out.share:
                raise ValueError("held_out.share: with model.folds each row is held out once; set it to 0")
            if self.crops.shift_words:
                raise ValueError("crops.shift_words: with model.folds the label's break is the row's; set it to 0")
        return self


def list_train_sid_profiles() -> list[str]:
    """Return the names of the built-in profiles."""
    return list_profiles_of(_PROFILES)


def load_train_sid_config(
    profile: str, files: Sequence[str] = (), overrides: Mapping[str, Any] | None = None
) -> TrainSidConfig:
    """Return a profile's configuration, with YAML files and then dotted `overrides` over it.

    Raises:
        ConfigError: names the profile, file or field that is wrong.
    """
    return validate_fields(TrainSidConfig, lay_over(read_profile(profile, _PROFILES), files, overrides or {}), profile)
