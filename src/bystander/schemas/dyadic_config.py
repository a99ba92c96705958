"""The configuration of a build of one-speaker requests with replies, made from a finished TPI build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from bystander.schemas.build_config import BuildConfig
from bystander.schemas.config import BENCH_SECTION, lay_over, read_profile, validate_fields
from bystander.schemas.engines import EngineRole
from bystander.schemas.field_types import DatasetName, Rows
from bystander.schemas.recogniser_configs import RecogniserConfig, VerifierConfig
from bystander.schemas.speech_engine_configs import SpeechEngineConfig
from bystander.schemas.stages import Params
from bystander.schemas.tpi_params import MixSpeakers, SynthesiseSpeech, VerifySpeakers


class BuildDyadic(Params):
    """`build_dyadic`: the request of a two-speaker row, to be spoken whole by one voice."""

    voice: Literal["primary", "third_party"] = "primary"
    """Which of the row's two voices says the request."""


class DyadicStages(Params):
    """Settings of the stages of a dyadic build."""

    build_dyadic: BuildDyadic = BuildDyadic()
    synthesise_speech: SynthesiseSpeech = SynthesiseSpeech()
    verify_speakers: VerifySpeakers = VerifySpeakers()
    mix_speakers: MixSpeakers = MixSpeakers()


class DyadicEngines(Params):
    """One engine a role. Texts are there already, so no language model has a part."""

    speech: SpeechEngineConfig
    recogniser: RecogniserConfig
    verifier: VerifierConfig


DYADIC_ROLES: tuple[EngineRole, ...] = ("speech", "recogniser", "verifier")


class DyadicConfig(BuildConfig):
    """All that decides a dyadic build.

    `partition_rows`, `workers` and the `SPEED_ONLY` fields of engines change its speed only, never a row.
    """

    ADDRESSES: ClassVar[Mapping[str, Any]] = {"source": True, "pack": True}

    dataset: DatasetName = "dyadic"
    source: str = Field(min_length=1)
    """Folder or fsspec URL of the finished TPI build that requests and replies are taken from; `latest` as its name is
    the dataset's latest release."""
    pack: str | None = None
    """The response pack of that build, where it is no longer where it was; it must be the same. It says which classes
    take up the remark."""
    rows: Rows | None = Field(None, ge=1)
    """Rows wanted; null for one of each request that can be used."""
    same_speech: bool = True
    """Whether speech and mixing must be set as they were for the rows of `source`, so that nothing but the number of
    speakers tells them apart."""
    stages: DyadicStages = DyadicStages()
    engines: DyadicEngines
    surplus: float = Field(1.2, ge=1, le=100)
    """Requests spoken for each row still missing."""


def load_dyadic_config(
    profile: str, files: Sequence[str] = (), overrides: Mapping[str, Any] | None = None
) -> DyadicConfig:
    """Return the configuration of a dyadic build: what a profile of TPI builds says of speech, under YAML files of its
    own and then dotted `overrides`.

    Raises:
        ConfigError: names the profile, file or field that is wrong.
    """
    data = read_profile(profile)
    for absent in (BENCH_SECTION, "targets", "wave_surplus"):
        data.pop(absent, None)
    for section, kind in (("stages", DyadicStages), ("engines", DyadicEngines)):
        data[section] = {name: value for name, value in data.get(section, {}).items() if name in kind.model_fields}
    return validate_fields(DyadicConfig, lay_over(data, files, overrides or {}), profile)
