"""All that decides a bank of reference voices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from bystander.schemas.config import lay_over, validate_fields
from bystander.schemas.field_types import Workers
from bystander.schemas.recogniser_configs import OnnxVerifierConfig, VerifierConfig
from bystander.schemas.stages import Params

VoiceLayout = Literal["auto", "folders", "files", "mls", "parquet"]
_Cosine = Annotated[float, Field(ge=-1, le=1)]


class VoiceSourceConfig(Params):
    """Where speech comes from, and whose it is."""

    path: str
    """A folder, Parquet file, glob or fsspec URL."""
    layout: VoiceLayout = "auto"
    """`folders`: one sub-folder a speaker; `files`: one file a voice; `mls`: Multilingual LibriSpeech; `parquet`: rows
    of audio and speaker; `auto` tells it from the content."""
    language: str | None = None
    """Language of voices whose source states none. Default: what a folder named `mls_german` says, else en."""
    licence: str | None = None
    """Licence of the speech. Default: of `mls`, CC BY 4.0, which the corpus is under; else empty."""
    name: str | None = None
    """Name of the source, for rows and cards. Default: the last part of its path."""
    id_prefix: str = ""
    """Put before each voice's id, so that banks of several sources can be told apart."""
    merge_subsets: bool | None = None
    """Whether a speaker id that occurs in several sub-sets (train, dev, test) is one person. Default: yes in `mls` and
    `parquet`, whose ids hold for all of the corpus; else no, and the sub-set is part of the voice's id."""
    audio_column: str | None = None
    speaker_column: str | None = None
    gender_column: str | None = None
    language_column: str | None = None


class IndexVoices(Params):
    """How a speaker's reference clip is chosen and checked."""

    min_duration_s: float = Field(6.0, gt=0, le=60)
    max_duration_s: float = Field(12.0, gt=0, le=120)
    """Bounds of a reference clip. Chatterbox conditions on its first 6 s (encoder) and 10 s (decoder)."""
    join_clips: bool = True
    """Whether short clips of a speaker are joined where none is long enough."""
    join_gap_s: float = Field(0.2, ge=0, le=2)
    max_pause_s: float = Field(0.8, gt=0, le=10)
    """A reference has no longer pause."""
    margin_s: float = Field(0.05, ge=0, le=1)
    """Kept before and after the speech."""
    candidates: int = Field(8, ge=1, le=1000)
    """Usable clips of a speaker that are compared; reading ends when there are so many."""
    max_read: int = Field(16, ge=1, le=10_000)
    """Clips of a speaker that are read at most, the unusable ones too."""
    min_clips: int = Field(1, ge=1, le=1000)
    """A speaker with fewer usable clips is rejected; from 2 on, every voice's consistency is known."""
    min_clip_s: float = Field(1.0, gt=0, le=60)
    """Least speech of a usable clip."""
    max_file_s: float = Field(1800.0, gt=0, le=24 * 3600)
    """A longer file is not read."""
    examined_s: float = Field(60.0, gt=0, le=3600)
    """How much of a clip is looked at, from its start."""
    min_level_dbfs: float = Field(-45.0, ge=-120, le=0)
    max_clipped_share: float = Field(0.001, ge=0, le=1)
    min_snr_db: float = Field(15.0, ge=0, le=70)
    min_consistency: _Cosine = 0.6
    """A clip whose median cosine to the speaker's other clips is below this is another's; where that leaves fewer than
    half of the clips, it cannot be told whose voice it is, and the speaker is rejected."""
    embedded_s: float = Field(6.0, ge=1, le=60)
    """How much of a clip is embedded to compare it, from the middle of its speech: what takes most of the time."""
    max_sampling_rate: int = Field(24_000, ge=8000, le=48_000)
    """Hz. Higher rates are lowered to it, lower ones kept."""

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> IndexVoices:
        if self.min_duration_s > self.max_duration_s:
            raise ValueError(f"min_duration_s {self.min_duration_s:g} is above max_duration_s {self.max_duration_s:g}")
        if self.max_read < self.candidates:
            raise ValueError(f"max_read {self.max_read} is below candidates {self.candidates}")
        return self


class IndexVoicesConfig(Params):
    """All that decides a bank; `workers` changes the speed only."""

    profile: str = "custom"
    source: VoiceSourceConfig
    index: IndexVoices = IndexVoices()
    verifier: VerifierConfig = OnnxVerifierConfig()
    workers: Workers = 2
    """Processes."""
    shard_mib: int = Field(256, ge=1, le=100_000)

    def describe(self) -> dict[str, Any]:
        """Return all fields that decide the bank's rows, as JSON-ready data."""
        return {
            "source": self.source.model_dump(mode="json", exclude={"path"}),
            "index": self.index.model_dump(mode="json"),
            "verifier": self.verifier.describe(),
        }


def load_index_config(files: Sequence[str] = (), overrides: Mapping[str, Any] | None = None) -> IndexVoicesConfig:
    """Return the configuration of YAML files, with dotted overrides over it.

    Raises:
        ConfigError: names the file or field that is wrong.
    """
    return validate_fields(IndexVoicesConfig, lay_over({}, files, overrides or {}), "custom")
