"""The configurations of SID builds and their profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, ClassVar, TypeVar

from pydantic import Field, model_validator

from bystander.schemas.build_config import BuildConfig
from bystander.schemas.config import list_profiles_of, load_layers, read_profile, validate_fields
from bystander.schemas.field_types import DatasetName, PartitionRows, Rows
from bystander.schemas.sid import BEGINNING, MIDDLE, SPEECH_CATEGORIES, UNINTERRUPTED
from bystander.schemas.sid_engine_configs import SidEngines
from bystander.schemas.sid_params import SidStages
from bystander.schemas.sides import Sided
from bystander.schemas.stages import Params

_PROFILES = resources.files("bystander.schemas") / "profiles" / "sid"


class RecordingSource(Params):
    """Recordings of two speakers. Without `path` there are none."""

    path: str | None = None
    """A folder, a glob, or a manifest (JSONL, CSV) that names audio, transcript, language and licence."""
    transcripts: str | None = None
    """Folder or glob of transcripts that lie apart from the audio; without it they lie beside it."""
    transcript_format: str | None = None
    """Format of the transcripts; without it, it is told from their names and contents."""
    language: str = "en"
    """Language of recordings that name none."""
    licence: str | None = None


class ConversationSource(Params):
    """Conversations that are scripted and synthesised, whose break times are known: rows say that they are synthetic.

    Quotas decide how many are made.
    """

    use: bool = True
    languages: tuple[str, ...] = ("en", "zh")


class NoiseSource(Sided):
    """Where noise clips come from, besides the near-silent stretches of the recordings.

    `use` says which files are taken, and keeps generated clips apart.
    """

    folders: tuple[str, ...] = ()
    """Folders of audio files, in the layouts of ESC-50 or MUSAN or any other."""
    generators: tuple[str, ...] = ("rain", "keyboard", "fan")
    """Generated kinds that fill up what the folders leave open."""
    licence: str | None = None
    """Licence of the folders' files."""
    skip_categories: tuple[str, ...] = ("breathing", "coughing", "crying_baby", "laughing", "sneezing", "snoring")
    """Categories of ESC-50, or subfolders of other folders, that are left out: by default, sounds of people's voices.
    Keep `breathing` where such clips are to be told from speech too."""


class SidTargets(Params):
    """Rows wanted. Null takes the natural distribution: every row, as it comes."""

    languages: tuple[str, ...] = ("en", "zh")
    per_language: dict[str, Rows] | None = Field(
        default_factory=lambda: {BEGINNING: 500, MIDDLE: 600, UNINTERRUPTED: 500}
    )
    """Rows of each category a language; the SID paper, Table I."""
    silence: Rows = 300
    noise: Rows = 200
    max_per_recording: int | None = Field(None, ge=1)
    """Most turns of one recording; null spreads them as evenly as the quotas allow, without a limit."""

    @model_validator(mode="after")
    def _categories_are_known(self) -> SidTargets:
        unknown = sorted(set(self.per_language or {}) - set(SPEECH_CATEGORIES))
        if unknown:
            raise ValueError(
                f"per_language: no category {', '.join(unknown)}; there are {', '.join(SPEECH_CATEGORIES)}"
            )
        return self


class SidConfig(BuildConfig):
    """All that decides a SID build.

    `partition_rows`, `partition_recordings`, `workers` and the `SPEED_ONLY` fields of engines change its speed only,
    never a row.
    """

    SPEED_ONLY: ClassVar[frozenset[str]] = BuildConfig.SPEED_ONLY | {"partition_recordings"}
    ADDRESSES: ClassVar[Mapping[str, Any]] = {
        "recordings": {"path", "transcripts"},
        "prompts": True,
        "disjoint_from": True,
    }

    dataset: DatasetName = "sid"
    recordings: RecordingSource = RecordingSource()
    conversations: ConversationSource = ConversationSource()
    noise: NoiseSource = NoiseSource()
    disjoint_from: tuple[str, ...] = ()
    """Folders or fsspec URLs of finished SID builds with which this one shares no recording, no clip of noise and no
    text with new intent of three words or more. Voices are kept apart by `stages.speak_conversations.use`."""
    targets: SidTargets = SidTargets()
    prompts: str = "sid"
    """Built-in prompts of the tagger and the script writer, or the path of a folder of them."""
    stages: SidStages = SidStages()
    engines: SidEngines
    partition_rows: PartitionRows = 64
    partition_recordings: PartitionRows = 4
    """Recordings, which are long, in one partition."""
    surplus: float = Field(1.3, ge=1, le=100)
    """Conversations made for each row still missing, beyond what the measured yield asks for."""
    max_waves: int = Field(20, ge=1, le=1_000_000)


class SidBenchConfig(SidConfig):
    """All that decides a SID-Bench build."""

    dataset: DatasetName = "sid-bench"


class SidTrainConfig(SidConfig):
    """All that decides a build of SID training data: the same rows, in a split of their own."""

    dataset: DatasetName = "sid-train"


_Build = TypeVar("_Build", bound=SidConfig)


def list_sid_profiles() -> list[str]:
    """Return the names of the built-in profiles of SID builds."""
    return list_profiles_of(_PROFILES)


def load_sid_config(
    kind: type[_Build], profile: str, files: Sequence[str] = (), overrides: Mapping[str, Any] | None = None
) -> _Build:
    """Return the configuration of a SID build: a profile, with YAML files and then dotted `overrides` over it.

    The `bench` section of the profile, and of each file, is laid over the other fields of the same one for a bench.

    Raises:
        ConfigError: names the profile, file or field that is wrong.
    """
    is_bench = issubclass(kind, SidBenchConfig)
    data = load_layers(profile, read_profile(profile, _PROFILES), files, overrides or {}, is_bench)
    return validate_fields(kind, data, profile)
