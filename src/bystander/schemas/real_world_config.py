"""The configuration of a build from recordings of several people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from bystander.schemas.build_config import BuildConfig
from bystander.schemas.config import lay_over, list_profiles_of, read_profile, validate_fields
from bystander.schemas.engines import EngineRole
from bystander.schemas.errors import ConfigError
from bystander.schemas.field_types import DatasetName, Name, PartitionRows
from bystander.schemas.real_world_params import RealWorldStages
from bystander.schemas.stages import Params
from bystander.schemas.text_engine_configs import TextEngineConfig

_PROFILES = resources.files("bystander.schemas") / "profiles" / "real_world"

CorpusFormat = Literal["ami_nxt", "lhotse", "friends_mmc", "dialogue_csv", "transcript"]


class CorpusSource(Params):
    """One corpus: where its transcripts are, and its audio."""

    path: str = Field(min_length=1)
    """A folder, file, zip (AMI's manual annotations) or fsspec URL."""
    name: Name | None = None
    """What its rows call it; by default the name of the folder or file."""
    format: CorpusFormat | None = None
    """How it is laid out; by default told by its files. `transcript`: STM, CTM, SegLST, TextGrid and others, one file a
    recording."""
    audio: str | None = None
    """Folder of its recordings: `<recording>.wav`, `<recording>.Mix-Headset.wav` or `<recording>.Headset-0.wav` and so
    on, in it or below. Without it, pairs come out as text."""
    rttm: str | None = None
    """Folder of RTTM files, or one: who speaks when, for transcripts that name no speaker."""
    language: str = "en"
    licence: str = "unknown"
    """Its terms, as rows and card state them, e.g. `CC BY 4.0`."""
    frames_per_s: float = Field(23.976, gt=0, le=1000)
    """Of Friends-MMC, whose times are numbers of video frames."""


class RealWorldEngines(Params):
    """One engine a role. The recordings are there already: nothing speaks, and nothing listens."""

    writer: TextEngineConfig
    judge: TextEngineConfig | None = None
    """Scores the pairs and labels them; null means the writer."""


REAL_WORLD_ROLES: tuple[EngineRole, ...] = ("writer", "judge")


class RealWorldConfig(BuildConfig):
    """All that decides a build of real recordings.

    `partition_rows`, `workers` and the `SPEED_ONLY` fields of engines change its speed only, never a row.
    """

    SPEED_ONLY: ClassVar[frozenset[str]] = BuildConfig.SPEED_ONLY | {"partition_utterances"}
    ADDRESSES: ClassVar[Mapping[str, Any]] = {
        "corpora": {"__all__": {"path", "audio", "rttm"}},
        "pack": True,
        "prompts": True,
        "decisions": True,
    }

    dataset: DatasetName = "tpi-real"
    corpora: tuple[CorpusSource, ...] = Field(min_length=1)
    pack: str = "reference"
    """Name of a built-in pack or of one that an installed package brings, or path of a pack's folder."""
    prompts: str = "curation"
    """Built-in prompts of the scoring, or the path of a folder of them."""
    decisions: str | None = None
    """A file that `bystander review` exports. Rejected rows are left out, what was put right is."""
    undecided: Literal["kept", "left_out"] = "left_out"
    """What becomes of rows that the decisions do not decide."""
    stages: RealWorldStages = RealWorldStages()
    engines: RealWorldEngines
    partition_utterances: PartitionRows = 20_000
    """Utterances in one partition, at least; recordings are not cut."""

    @field_validator("corpora")
    @classmethod
    def _names_differ(cls, corpora: tuple[CorpusSource, ...]) -> tuple[CorpusSource, ...]:
        names = [name_corpus(corpus) for corpus in corpora]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two corpora are called {', '.join(twice)}; give each a name of its own")
        return corpora


def name_corpus(corpus: CorpusSource) -> str:
    """Return what rows call a corpus: its name, or that of its folder or file without endings."""
    if corpus.name is not None:
        return corpus.name
    last = corpus.path.rstrip("/").rpartition("/")[2]
    return last.split(".")[0] or "corpus"


def list_real_world_profiles() -> list[str]:
    """Return the names of the built-in profiles."""
    return list_profiles_of(_PROFILES)


def load_real_world_config(
    profile: str, files: Sequence[str] = (), overrides: Mapping[str, Any] | None = None
) -> RealWorldConfig:
    """Return the configuration: a profile, with YAML files and then dotted `overrides` over it.

    Raises:
        ConfigError: names the profile, file or field that is wrong.
    """
    data = lay_over(read_profile(profile, _PROFILES), files, overrides or {})
    return validate_fields(RealWorldConfig, data, profile)


def join_corpora(corpora: Sequence[str], audio: Sequence[str], licences: Sequence[str]) -> list[dict[str, str]]:
    """Return fields of `CorpusSource` from the places of transcripts, of their audio, and licences, in the same order.

    Raises:
        ConfigError: there are more folders of audio or licences than corpora.
    """
    for name, values in (("audio", audio), ("licence", licences)):
        if len(values) > len(corpora):
            raise ConfigError(f"{name}: is given {len(values)} times for {len(corpora)} corpora; once each at most")
    joined = [{"path": path} for path in corpora]
    for name, values in (("audio", audio), ("licence", licences)):
        for one, value in zip(joined, values, strict=False):
            one[name] = value
    return joined
