"""The configuration of training a detector of interruptions on SID rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

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


class RecurrentConfig(Params):
    """A small causal network over log-mel frames that runs without torch: for a laptop."""

    architecture: Literal["recurrent"] = "recurrent"


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
