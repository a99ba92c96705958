"""The parameters of deployments that build datasets, one model each, and the configurations that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from bystander.schemas.config import TpiBenchConfig, TpiTrainConfig, load_bench_config, load_config
from bystander.schemas.deployed_run import DeployedRun, MaybeRows, MaybeSeed, MaybeText, list_or_none
from bystander.schemas.errors import InputError
from bystander.schemas.field_types import PUBLISHING_PLACE
from bystander.schemas.hub_address import HUB, parse_hub_address
from bystander.schemas.real_world_config import RealWorldConfig, join_corpora, load_real_world_config
from bystander.schemas.sid_config import SidBenchConfig, SidTrainConfig, load_sid_config

TpiProfile = Literal["fake", "laptop", "paper", "playbook"]
SidProfile = Literal["fake", "laptop", "paper", "rules"]
RealWorldProfile = Literal["fake", "laptop", "paper"]
SidLanguage = Literal["en", "zh"]


class DeployedBuild(DeployedRun):
    """What all deployments of builds are told."""

    seed: MaybeSeed = Field(None, title="Seed", description="The same seed and input give the same rows.", examples=[0])
    release: bool = Field(
        True,
        title="Release",
        description="Publish under a dated name, and point `latest` to it once it passes `verify`. Otherwise the build "
        "lies under the name that its settings give it, and `latest` stays where it is.",
    )
    publish_to: MaybeText = Field(
        None,
        title="Publish to",
        description="Folder or URL that gets every new release, or a dataset of the Hugging Face hub. Empty: nowhere.",
        pattern=PUBLISHING_PLACE,
        examples=["/data/published", "hf://datasets/NAME/DATASET"],
    )
    public: bool = Field(
        False,
        title="Public",
        description="The dataset on the hub is, or is to be, open to everybody; else it is private.",
    )
    require_all: bool = Field(
        False,
        title="Require all rows",
        description="Let the run fail where the finished build has fewer rows than were asked for.",
    )

    @model_validator(mode="after")
    def _only_releases_are_published(self) -> DeployedBuild:
        if self.publish_to is not None and not self.release:
            raise ValueError("publish_to: only releases are published; switch release on, or leave it empty")
        if self.public and not (self.publish_to or "").startswith(HUB):
            raise ValueError(f"public: is for the hub; begin publish_to with {HUB}, or leave it off")
        if self.publish_to is not None and self.publish_to.startswith(HUB):
            try:
                parse_hub_address(self.publish_to)
            except InputError as exc:
                raise ValueError(f"publish_to: {exc}") from exc
        return self


class TpiRun(DeployedBuild):
    """What deployments of TPI builds are told."""

    profile: TpiProfile = Field(title="Profile", description="Engines and sizes.", examples=["paper"])
    rows: MaybeRows = Field(
        None,
        title="Rows",
        description="Rows in all, one-speaker rows included, in the profile's proportions. Empty: as many as it says.",
        examples=[1000],
    )
    queries: MaybeText = Field(
        None,
        title="Queries",
        description="Requests to build from: path, glob or URL of JSONL, CSV, TSV, TXT or Parquet. Empty: the "
        "profile's, or the starter set of the package.",
        examples=["/data/queries/*.jsonl"],
    )
    pack: MaybeText = Field(
        None,
        title="Response pack",
        description="Name of a pack, or path of its folder on the worker. Empty: the profile's.",
        examples=["reference"],
    )
    voice_bank: MaybeText = Field(
        None,
        title="Voice bank",
        description="Folder or URL of a bank that `bystander voices index` made, for a profile that speaks in such "
        "voices, as `paper` does. Empty: the profile's.",
        examples=["/data/voice-bank"],
    )
    disjoint_from: list[str] = Field(
        default_factory=list,
        title="Disjoint from",
        description="Folders or URLs of finished builds with which this one shares no query, no text and no pair of "
        "voices; `latest` as the name of one stands for its dataset's latest release.",
        examples=[["/data/store/tpi-train/latest"]],
    )

    def list_overrides(self) -> dict[str, Any]:
        """Return what is laid over the profile and the files."""
        return self.lay_over(
            {
                "seed": self.seed,
                "queries.path": self.queries,
                "pack": self.pack,
                "engines.speech.bank": self.voice_bank,
                "disjoint_from": list_or_none(self.disjoint_from),
            }
        )


class TpiTrainRun(TpiRun):
    """Parameters of the deployments of `build-tpi-train`."""

    grow: bool = Field(
        False,
        title="Grow",
        description="Keep all rows of the latest release as they are, and add others until there are as many as asked "
        "for: for queries that are added to. Where nothing was released yet, a first build is made.",
    )

    @model_validator(mode="after")
    def _only_releases_grow(self) -> TpiTrainRun:
        if self.grow and not self.release:
            raise ValueError("grow: is from release to release; switch release on, or leave it off")
        return self

    def load(self, site_files: Sequence[str]) -> TpiTrainConfig:
        """Return the configuration but for `rows`, the files of the worker's site below those of the run.

        Raises:
            ConfigError: names the file or field that is wrong.
        """
        return load_config(self.profile, [*site_files, *self.files], self.list_overrides())


class TpiBenchRun(TpiRun):
    """Parameters of the deployments of `build-tpi-bench`."""

    def load(self, site_files: Sequence[str]) -> TpiBenchConfig:
        """Return the configuration but for `rows`, the files of the worker's site below those of the run.

        Raises:
            ConfigError: names the file or field that is wrong.
        """
        return load_bench_config(self.profile, [*site_files, *self.files], self.list_overrides())


class SidRun(DeployedBuild):
    """What deployments of SID builds are told."""

    profile: SidProfile = Field(title="Profile", description="Engines and sizes.", examples=["laptop"])
    recordings: MaybeText = Field(
        None,
        title="Recordings",
        description="Recordings of two speakers: a folder, a glob, or a manifest (JSONL, CSV). Empty: conversations "
        "are scripted and synthesised.",
        examples=["/data/calls"],
    )
    transcripts: MaybeText = Field(
        None, title="Transcripts", description="Folder or glob of transcripts that do not lie beside the audio."
    )
    language: SidLanguage = Field("en", title="Language of the recordings", description="Of recordings that name none.")
    licence: MaybeText = Field(
        None, title="Licence of the recordings", description="Of recordings that name none; it goes on every row."
    )
    natural: bool = Field(
        False,
        title="Natural distribution",
        description="Take every turn of the recordings as it comes, without quotas of speech.",
    )
    languages: list[SidLanguage] = Field(
        default_factory=list, title="Languages wanted", description="Empty: the profile's.", examples=[["en", "zh"]]
    )
    noise: list[str] = Field(
        default_factory=list,
        title="Noise",
        description="Folders of noise clips, in the layout of ESC-50, MUSAN or any other. Empty: the profile's.",
        examples=[["/data/ESC-50"]],
    )

    def list_overrides(self) -> dict[str, Any]:
        """Return what is laid over the profile and the files."""
        overrides = self.lay_over(
            {
                "seed": self.seed,
                "recordings.path": self.recordings,
                "recordings.transcripts": self.transcripts,
                "recordings.language": self.language if self.recordings else None,
                "recordings.licence": self.licence,
                "targets.languages": list_or_none(self.languages),
                "noise.folders": list_or_none(self.noise),
            }
        )
        return {**overrides, "targets.per_language": None} if self.natural else overrides


class SidBenchRun(SidRun):
    """Parameters of the deployments of `build-sid-bench`."""

    def load(self, site_files: Sequence[str]) -> SidBenchConfig:
        """Return the configuration, the files of the worker's site below those of the run.

        Raises:
            ConfigError: names the file or field that is wrong.
        """
        return load_sid_config(SidBenchConfig, self.profile, [*site_files, *self.files], self.list_overrides())


class SidTrainRun(SidRun):
    """Parameters of the deployments of `build-sid-train`."""

    def load(self, site_files: Sequence[str]) -> SidTrainConfig:
        """Return the configuration, the files of the worker's site below those of the run.

        Raises:
            ConfigError: names the file or field that is wrong.
        """
        return load_sid_config(SidTrainConfig, self.profile, [*site_files, *self.files], self.list_overrides())


class RealWorldRun(DeployedBuild):
    """Parameters of the deployments of `curate-real-world`."""

    profile: RealWorldProfile = Field(
        title="Profile", description="Who scores, labels and replies.", examples=["laptop"]
    )
    corpora: list[str] = Field(
        default_factory=list,
        title="Corpora",
        description="Transcripts of people who talk to each other: folders, files, zip archives or URLs.",
        examples=[["/data/ami_public_manual_1.6.2.zip"]],
    )
    audio: list[str] = Field(
        default_factory=list,
        title="Audio",
        description="Folders of recordings, of the corpora in the same order. Empty: pairs come out as text.",
        examples=[["/data/amicorpus"]],
    )
    licences: list[str] = Field(
        default_factory=list,
        title="Licences",
        description="Terms of the corpora in the same order; they go on every row.",
        examples=[["CC BY 4.0"]],
    )
    decisions: MaybeText = Field(
        None, title="Decisions", description="File of reviewers' decisions that are applied. Empty: none."
    )
    pack: MaybeText = Field(
        None,
        title="Response pack",
        description="Name of a pack, or path of its folder on the worker. Empty: the profile's.",
        examples=["reference"],
    )

    def list_overrides(self) -> dict[str, Any]:
        """Return what is laid over the profile and the files.

        Raises:
            ConfigError: there are more folders of audio or licences than corpora.
        """
        return self.lay_over(
            {
                "seed": self.seed,
                "corpora": list_or_none(join_corpora(self.corpora, self.audio, self.licences)),
                "decisions": self.decisions,
                "pack": self.pack,
            }
        )

    def load(self, site_files: Sequence[str]) -> RealWorldConfig:
        """Return the configuration, the files of the worker's site below those of the run.

        Raises:
            ConfigError: names the file or field that is wrong.
        """
        return load_real_world_config(self.profile, [*site_files, *self.files], self.list_overrides())
