"""`manifest.json`: what a build is made of, how it came about, and the checksums of its files.

It is written last: a build without one is unfinished. All of it is a function of the configuration, the code and the
engines' answers: nothing says when, where or how fast it was made, so two equal builds have equal manifests.
"""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib import metadata
from typing import Any, Literal, TypeVar

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import bystander
from bystander.schemas.errors import BuildError, MissingFileError
from bystander.schemas.identity import digest_json
from bystander.storage.filesystem import Store

MANIFEST_NAME = "manifest.json"
REPORT_NAME = "report.html"

PACKAGES = (
    "av",
    "cn2an",
    "ctranslate2",
    "faster-whisper",
    "hibari-tts",
    "jieba",
    "kaldi-hmm-gmm",
    "kaldi-native-fbank",
    "kaldifst",
    "librosa",
    "numpy",
    "onnxruntime",
    "openai",
    "pandas",
    "pocketsphinx",
    "prefect",
    "pyarrow",
    "pyloudnorm",
    "pypinyin",
    "scipy",
    "soundfile",
    "soxr",
    "xllamacpp",
)
"""Packages whose version can change a row or a file."""


BuildKind = Literal["tpi_train", "tpi_bench", "tpi_parts", "tpi_real"]
"""What made a build: `bystander build tpi-train`, `build tpi-bench`, `split`, or, for the last, `build real-world` or
`session import`."""


VoicesDisjointBy = Literal["pair", "voice"]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FileInfo(_Section):
    """A Parquet file of the build: path relative to the build's folder, and what it must hold."""

    file: str
    rows: int = Field(ge=0)
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class ShardInfo(FileInfo):
    """A shard of a split."""

    split: str


class PackInfo(_Section):
    """The response pack: its classes, each with the kinds that it may have."""

    name: str
    digest: str
    classes: dict[str, tuple[str, ...]]


class TaxonomyInfo(_Section):
    """The taxonomy: scenario keys, each with its category."""

    name: str
    digest: str
    scenarios: dict[str, str]


class EngineInfo(_Section):
    """An engine's identity, as `EngineIdentity.describe()` gives it."""

    kind: str
    name: str
    model: str
    revision: str = ""
    settings: dict[str, str] = Field(default_factory=dict)


class ModelFileInfo(_Section):
    """A model file that the build loaded."""

    name: str
    bytes: int = Field(ge=0)
    sha256: str
    licence: str
    sources: tuple[str, ...] = ()


class StageCounts(_Section):
    """Rows that a stage read, kept, and rejected by reason, over all partitions and waves."""

    stage: str
    version: int = 1
    rows_in: int = Field(ge=0)
    kept: int = Field(ge=0)
    reasons: dict[str, int] = Field(default_factory=dict)

    @property
    def rejected(self) -> int:
        return sum(self.reasons.values())


class RowCounts(_Section):
    """Final rows, counted over the shards; `by_kind` leaves out rows without a kind."""

    rows: int = 0
    by_split: dict[str, int] = Field(default_factory=dict)
    by_label: dict[str, int] = Field(default_factory=dict)
    by_scenario: dict[str, int] = Field(default_factory=dict)
    by_timing: dict[str, int] = Field(default_factory=dict)
    by_kind: dict[str, int] = Field(default_factory=dict)
    by_label_and_scenario: dict[str, dict[str, int]] = Field(default_factory=dict)
    twins: int = 0
    """Two-speaker rows whose one-speaker twin is there too."""
    speech_s: float = 0.0
    """Sum of the clips' durations, rounded to milliseconds."""


class Quota(_Section):
    """Rows asked for and obtained in a stratum: of a label, of a scenario (two-speaker rows), or of both."""

    label: str | None = None
    scenario: str | None = None
    asked: int = Field(ge=0)
    got: int = Field(ge=0)

    @property
    def stratum(self) -> str:
        """The stratum in words."""
        return " in ".join(name for name in (self.label, self.scenario) if name) or "all rows"

    @property
    def missing(self) -> int:
        return max(0, self.asked - self.got)


class OtherBuild(_Section):
    """A build that this one was held against, or made from. `rows_digest` stands for its rows, see `digest_rows`."""

    uri: str
    dataset: str
    build: str
    rows_digest: str = Field(pattern=r"^[0-9a-f]{64}$")


class BaseInfo(OtherBuild):
    """The build that this one stands on: what was taken of it, and how many of its rows are here again."""

    rows: Literal["first", "only"]
    """`first`: its rows as they are, and more. `only`: its requests, texts, voices and audio with other labels and
    replies."""
    rows_there: int = Field(ge=0)
    rows_here: int = Field(ge=0)

    @property
    def sentence(self) -> str:
        """Say in one sentence how much of it is here."""
        return f"{self.rows_here} of the {self.rows_there} rows of {self.dataset}/{self.build} are here again."


class PartsInfo(_Section):
    """The build that parts were cut from, the share of its rows that each aimed at, and the seed of ties."""

    of: OtherBuild
    shares: dict[str, float]
    seed: int


class CorpusInfo(_Section):
    """A corpus that a build of real recordings was made from."""

    name: str
    path: str
    licence: str
    utterances: int = Field(ge=0)
    recordings: int = Field(ge=0)
    recordings_with_audio: int = Field(ge=0)
    """Of those that a pair was accepted from."""


class ManifestBase(_Section):
    """What the manifests of all builds have."""

    format: Literal["bystander-build"] = "bystander-build"
    format_version: Literal[1] = 1
    dataset: str
    build: str
    content_digest: str = ""
    """Digest of all that the files were made from: an equal one means that a rebuild would write the same files."""
    seed: int
    config: dict[str, Any]
    code_version: str
    packages: dict[str, str]
    engines: dict[str, EngineInfo]
    models: tuple[ModelFileInfo, ...] = ()
    sampling_rate: int
    stages: tuple[StageCounts, ...]
    fingerprints: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """For each stage, what decides its results besides its rows, as `tasks.stage_description` has it. Builds made
    before it was written down have none."""
    shards: tuple[ShardInfo, ...]
    rejects: tuple[FileInfo, ...] = ()
    rejects_left_out: bool = False
    """Whether it was published without the files of its rejects; `stages` say how many rows were rejected, and why."""


_Manifest = TypeVar("_Manifest", bound=ManifestBase)


class BuildManifest(ManifestBase):
    """Everything about a TPI build."""

    kind: BuildKind = "tpi_train"
    pack: PackInfo
    taxonomy: TaxonomyInfo
    quotas: tuple[Quota, ...] = ()
    disjoint_from: tuple[OtherBuild, ...] = ()
    """Builds with which it shares no query, no text, and no pair of voices or no voice (see `voices_disjoint_by`)."""
    voices_disjoint_by: VoicesDisjointBy = "pair"
    """Whether it shares no pair of voices with other builds, or no voice: no speaker occurs in both."""
    on_top_of: BaseInfo | None = None
    """The build that it stands on."""
    parts_of: PartsInfo | None = None
    """How it was cut from another build."""
    corpora: tuple[CorpusInfo, ...] = ()
    """Of a build of real recordings: what it was made from."""
    candidates: FileInfo | None = None
    """Likewise: pairs that passed, but of which there is no audio, so that they are no rows."""
    decisions: str | None = None
    """Likewise: SHA-256 of the file of reviewers' decisions that was applied."""
    counts: RowCounts

    @property
    def shortfalls(self) -> list[Quota]:
        """Strata that have fewer rows than were asked for."""
        return [quota for quota in self.quotas if quota.missing]


class RowCounter:
    """Counts final rows, batch by batch."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {
            name: Counter() for name in ("split", "label", "scenario", "timing", "kind")
        }
        self._strata: Counter[tuple[str, str]] = Counter()
        self._rows = 0
        self._twins = 0
        self._speech_s = 0.0

    def add(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Count rows with the columns of a FINAL table."""
        self._rows += rows.num_rows
        for name, counter in self._counts.items():
            counter.update(value for value in rows.column(name).to_pylist() if value is not None)
        strata = zip(rows.column("label").to_pylist(), rows.column("scenario").to_pylist(), strict=True)
        self._strata.update((label, scenario) for label, scenario in strata if label and scenario)
        links = zip(rows.column("n_speakers").to_pylist(), rows.column("twin_id").to_pylist(), strict=True)
        self._twins += sum(speakers == 2 and twin is not None for speakers, twin in links)
        self._speech_s += sum(seconds or 0.0 for seconds in rows.column("duration_s").to_pylist())

    def finish(self) -> RowCounts:
        """Return the counts, keys sorted."""
        strata: dict[str, dict[str, int]] = {}
        for (label, scenario), count in sorted(self._strata.items()):
            strata.setdefault(label, {})[scenario] = count
        by_name = {f"by_{name}": dict(sorted(counter.items())) for name, counter in self._counts.items()}
        seconds = round(self._speech_s, 3)
        return RowCounts(rows=self._rows, by_label_and_scenario=strata, twins=self._twins, speech_s=seconds, **by_name)


def count_rows(batches: Iterable[pa.Table | pa.RecordBatch]) -> RowCounts:
    """Count final rows."""
    counter = RowCounter()
    for batch in batches:
        counter.add(batch)
    return counter.finish()


def digest_rows(manifest: ManifestBase) -> str:
    """Return a digest of a build's rows: of the checksums of its shards."""
    return digest_json(sorted(shard.sha256 for shard in manifest.shards))


def list_package_versions(names: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Return the versions of Python and of those packages that are installed."""
    versions = {"python": platform.python_version()}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def get_code_version() -> str:
    """Return the version of this package."""
    return bystander.__version__


def write_manifest(store: Store, manifest: ManifestBase) -> None:
    """Write a build's `manifest.json`; call it after every other file is in place."""
    store.write_bytes(MANIFEST_NAME, manifest.model_dump_json(indent=2).encode() + b"\n")


def read_manifest(store: Store) -> BuildManifest:
    """Read the `manifest.json` of a TPI build.

    Raises:
        BuildError: there is none, or it is not a manifest of this format.
    """
    kind = read_build_kind(store)
    if kind.startswith(("sid", "dyadic")):
        name = "SID" if kind.startswith("sid") else "dyadic"
        raise BuildError(f"{store.uri_of(MANIFEST_NAME)}: is of a {name} build ({kind}); a TPI build is asked for")
    return read_manifest_as(BuildManifest, store)


def read_build_kind(store: Store) -> str:
    """Return what made a build, `sid_bench` say, from its `manifest.json`; `""` where it does not say.

    Raises:
        BuildError: there is no manifest, or it is no JSON object.
    """
    where = store.uri_of(MANIFEST_NAME)
    try:
        kind = json.loads(_read_bytes(store)).get("kind", "")
    except (ValueError, AttributeError) as exc:
        raise BuildError(f"{where}: is not a build manifest of this version (no JSON object)") from exc
    return kind if isinstance(kind, str) else ""


def read_manifest_as(model: type[_Manifest], store: Store) -> _Manifest:
    """Read a build's `manifest.json` as a manifest of this kind.

    Raises:
        BuildError: there is none, or it is not a manifest of this format.
    """
    where = store.uri_of(MANIFEST_NAME)
    content = _read_bytes(store)
    try:
        return model.model_validate_json(content)
    except ValidationError as exc:
        if any(error["loc"] == ("format",) and error["type"] == "literal_error" for error in exc.errors()):
            named = json.loads(content)["format"]
            raise BuildError(f"{where}: is of another format ({named}), not of a build; name a build's folder") from exc
        faults = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'manifest'}: {e['msg']}" for e in exc.errors()[:5])
        raise BuildError(f"{where}: is not a build manifest of this version ({faults})") from exc


def _read_bytes(store: Store) -> bytes:
    try:
        return store.read_bytes(MANIFEST_NAME)
    except MissingFileError as exc:
        raise BuildError(f"{store.uri_of(MANIFEST_NAME)}: is missing, so this is not a finished build") from exc
