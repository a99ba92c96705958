"""The configurations of TPI builds, their profiles, and how fields are overridden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import yaml
from pydantic import Field, ValidationError, field_validator

from bystander.schemas.build_config import BuildConfig
from bystander.schemas.engine_configs import EngineConfigs
from bystander.schemas.errors import ConfigError
from bystander.schemas.field_faults import describe_field_faults
from bystander.schemas.field_types import MAX_ROWS, DatasetName
from bystander.schemas.stages import Params
from bystander.schemas.tpi_params import TpiBenchTargets, TpiStages, TpiTargets

BENCH_SECTION = "bench"
"""Section of a profile or configuration file whose fields hold for benches only."""

IDLE_WHERE_ROWS_REPEAT = frozenset({"targets", "wave_surplus", "max_waves"})
"""Fields that have no say where a build has just the rows of another."""

_BY_CLASS = frozenset({"labels", "thresholds"})
"""Fields whose keys are classes of the pack: those of a profile mean nothing to another pack."""
_KINDS = ("engine", "runner", "architecture")
"""Fields that say what kind of thing a mapping describes: those of one kind mean nothing to another."""
_Config = TypeVar("_Config", bound=Params)
_PROFILES = resources.files("bystander.schemas") / "profiles"


class QuerySource(Params):
    """Where queries come from. Without `path`, the starter set that ships with the package."""

    path: str | None = None
    """A path, glob or fsspec URL to JSONL, CSV, TSV, TXT or Parquet."""
    text_column: str | None = None
    """Column of the request; without it, the usual names are tried (VoiceAssistant-400K's `question` first)."""
    language_column: str | None = None
    language: str = "en"
    """Language of rows that name none."""


class OnTopOf(Params):
    """A finished build whose rows a new one starts from: the same candidates, so the same texts and the same audio."""

    build: str = Field(min_length=1)
    """Its folder or fsspec URL, of the same store or another; `latest` as its name is the dataset's latest release."""
    rows: Literal["first", "only"] = "first"
    """`first`: its rows stay as they are and others are added until the targets are met. `only`: just its rows are
    there again, with labels and replies of this build's pack, and every class has as many as it gets: `targets` do
    not count."""


class TpiConfig(BuildConfig):
    """All that decides a TPI build.

    `partition_rows`, `workers` and the `SPEED_ONLY` fields of engines change its speed only, never a row.
    """

    ADDRESSES: ClassVar[Mapping[str, Any]] = {
        "queries": {"path"},
        "disjoint_from": True,
        "on_top_of": {"build"},
        "taxonomy": True,
        "pack": True,
    }

    dataset: DatasetName = "tpi"
    queries: QuerySource = QuerySource()
    disjoint_from: tuple[str, ...] = ()
    """Folders or fsspec URLs of finished builds with which this one shares no query, no text and no pair of voices (no
    voice at all with `stages.choose_voices.hold_out_by: voice`)."""
    on_top_of: OnTopOf | None = None
    taxonomy: str | None = None
    pack: str = "reference"
    """Name of a built-in pack or of one that an installed package brings, or path of a pack's folder."""
    targets: TpiTargets = TpiTargets()
    stages: TpiStages = TpiStages()
    engines: EngineConfigs
    wave_surplus: float = Field(1.3, ge=1, le=100)
    """Candidates drawn for each row still missing, beyond what the measured yield asks for."""

    @property
    def repeats_rows(self) -> bool:
        """Whether the rows are those of another build, so that none is sought."""
        return self.on_top_of is not None and self.on_top_of.rows == "only"

    @property
    def idle_fields(self) -> frozenset[str]:
        return IDLE_WHERE_ROWS_REPEAT if self.repeats_rows else frozenset()


class TpiTrainConfig(TpiConfig):
    """All that decides a TPI-Train build."""

    dataset: DatasetName = "tpi-train"


class TpiBenchConfig(TpiConfig):
    """All that decides a TPI-Bench build."""

    dataset: DatasetName = "tpi-bench"
    targets: TpiBenchTargets = TpiBenchTargets()

    @field_validator("stages")
    @classmethod
    def _words_are_heard_exactly(cls, stages: TpiStages) -> TpiStages:
        if stages.synthesise_speech.max_wer != 0:
            raise ValueError(
                "synthesise_speech.max_wer must be 0 in a bench, where a recogniser has to hear every word of every "
                f"track, not {stages.synthesise_speech.max_wer:g}"
            )
        return stages


_Build = TypeVar("_Build", bound=TpiConfig)


def list_profiles() -> list[str]:
    """Return the names of the built-in profiles."""
    return list_profiles_of(_PROFILES)


def load_config(profile: str, files: Sequence[str] = (), overrides: Mapping[str, Any] | None = None) -> TpiTrainConfig:
    """Return the configuration of a TPI-Train build: a profile, with YAML files and then dotted `overrides` over it.

    Raises:
        ConfigError: names the profile, file or field that is wrong.
    """
    return _load(TpiTrainConfig, profile, files, overrides or {})


def load_bench_config(
    profile: str, files: Sequence[str] = (), overrides: Mapping[str, Any] | None = None
) -> TpiBenchConfig:
    """Return the configuration of a TPI-Bench build, as `load_config` does for TPI-Train.

    The `bench` section of the profile, and of each file, is laid over the other fields of the same one.

    Raises:
        ConfigError: names the profile, file or field that is wrong.
    """
    return _load(TpiBenchConfig, profile, files, overrides or {})


def _load(kind: type[_Build], profile: str, files: Sequence[str], overrides: Mapping[str, Any]) -> _Build:
    data = load_layers(profile, read_profile(profile), files, overrides, issubclass(kind, TpiBenchConfig))
    return validate_fields(kind, data, profile)


def load_layers(
    profile: str, fields: dict[str, Any], files: Sequence[str], overrides: Mapping[str, Any], is_bench: bool
) -> dict[str, Any]:
    """Return the fields of a profile with those of YAML files and then dotted `overrides` laid over them, in order.

    The `bench` section of each is laid over the other fields of the same one where `is_bench`, else left out.

    Raises:
        ConfigError: a file cannot be read, or is no mapping, or its `bench` is none.
    """
    data: dict[str, Any] = {}
    for source, layer in (
        (f"profile {profile!r}", fields),
        *((f"configuration file {path}", read_yaml(path)) for path in files),
    ):
        section = layer.pop(BENCH_SECTION, None) or {}
        if not isinstance(section, dict):
            raise ConfigError(f"{source}: {BENCH_SECTION} must be a mapping of fields")
        data = _merge(data, layer)
        if is_bench:
            data = _merge(data, section)
    return lay_over(data, (), overrides)


def lay_over(data: dict[str, Any], files: Sequence[str], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with those of YAML files and then dotted `overrides` laid over them, in order.

    Raises:
        ConfigError: a file cannot be read, or is no mapping.
    """
    for path in files:
        data = _merge(data, read_yaml(path))
    given: dict[str, Any] = {}
    for key, value in overrides.items():
        given = _merge(given, _nest(key, value), replaced=frozenset())  # of two classes set, neither is lost
    return _merge(data, given)


def validate_fields(kind: type[_Config], data: Mapping[str, Any], profile: str) -> _Config:
    """Return the configuration of these fields.

    Raises:
        ConfigError: names the fields that are wrong.
    """
    try:
        return kind.model_validate({**data, "profile": profile})
    except ValidationError as exc:
        raise ConfigError(f"configuration of profile {profile!r}: {describe_field_faults(kind, exc)}") from exc


def resize(config: _Build, rows: int | None = None, hard_negatives: int | None = None) -> _Build:
    """Return the configuration with `rows` rows in all, in the same proportions, and then so many hard negatives.

    Raises:
        ConfigError: there would be hard negatives, but not a single two-speaker row, or more rows than can be.
    """
    for asked in (rows, hard_negatives):
        if asked is not None and asked > MAX_ROWS:
            raise ConfigError(f"{asked} rows are asked for; at most {MAX_ROWS} can be")
    targets = config.targets
    try:
        if rows is not None:
            targets = targets.scaled_to(rows)
        if hard_negatives is not None:
            targets = type(targets)(labels=targets.labels, hard_negatives=hard_negatives)
    except ValidationError as exc:
        raise ConfigError(
            f"{rows or targets.pairs} rows in the proportions of {dict(targets.labels)} and "
            f"{targets.hard_negatives} hard negatives leave no two-speaker row; ask for more rows"
        ) from exc
    return config.model_copy(update={"targets": targets})


def parse_override(text: str) -> tuple[str, Any]:
    """Split `stages.mix_speakers.offset_mean_s=-0.3` into its dotted key and YAML value.

    Raises:
        ConfigError: there is no `=`, or the value is not YAML.
    """
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise ConfigError(f"--set {text!r}: write it as field.name=value")
    try:
        return key.strip(), yaml.safe_load(value)
    except yaml.YAMLError as exc:
        raise ConfigError(f"--set {text!r}: {value!r} is not a YAML value") from exc


def read_profile(profile: str, folder: Traversable = _PROFILES) -> dict[str, Any]:
    """Return the fields of a profile, laid over those of the file in `shared/` that it `extends`, if it names one.

    What is extended extends nothing itself: everything that a profile says is in two files at most.

    Raises:
        ConfigError: there is no such profile, or what it extends is missing or extends something.
    """
    if profile not in list_profiles_of(folder):
        raise ConfigError(f"no profile {profile!r}; there are {', '.join(list_profiles_of(folder))}")
    data = _load_fields(folder / f"{profile}.yaml")
    base = data.pop("extends", None)
    if base is None:
        return data
    shared = folder / "shared"
    if base not in list_profiles_of(shared):
        raise ConfigError(
            f"profile {profile!r} extends {base!r}; there are {', '.join(list_profiles_of(shared)) or 'none'}"
        )
    fields = _load_fields(shared / f"{base}.yaml")
    if "extends" in fields:
        raise ConfigError(f"profile {profile!r} extends {base!r}, which extends another; only one level is allowed")
    return _merge(fields, data)


def list_profiles_of(folder: Traversable) -> list[str]:
    """Return the names of the profiles in a folder."""
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def _load_fields(file: Traversable) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(file.read_text("utf-8"))
    return data


def read_yaml(path: str) -> dict[str, Any]:
    """Return the fields of a YAML file; none where it is empty.

    Raises:
        ConfigError: it cannot be read, or is no mapping.
    """
    try:
        data = yaml.safe_load(Path(path).read_text("utf-8"))
    except OSError as exc:
        raise ConfigError(f"configuration file {path}: cannot be read ({exc.strerror})") from exc
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        raise ConfigError(f"configuration file {path}: is not valid YAML ({exc})") from exc
    if data is None:  # empty, or comments only
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"configuration file {path}: must be a mapping of fields")
    return data


def _nest(key: str, value: Any) -> dict[str, Any]:
    head, _, rest = key.partition(".")
    return {head: _nest(rest, value) if rest else value}


def _merge(base: Mapping[str, Any], over: Mapping[str, Any], replaced: AbstractSet[str] = _BY_CLASS) -> dict[str, Any]:
    """Lay `over` over `base`.

    A mapping of classes (one of the fields `replaced`), or one that names another engine, task runner or architecture,
    replaces the old one whole.
    """
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        if not isinstance(old, Mapping) or not isinstance(value, Mapping) or key in replaced:
            merged[key] = value
        elif any(value.get(kind, old.get(kind)) != old.get(kind) for kind in _KINDS):
            merged[key] = dict(value)
        else:
            merged[key] = _merge(old, value, replaced)
    return merged
