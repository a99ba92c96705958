"""`manifest.json` of a SID build."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from bystander.schemas.annotation_error import AnnotationError
from bystander.schemas.errors import BuildError
from bystander.storage.build_manifest import MANIFEST_NAME, ManifestBase, OtherBuild, read_build_kind, read_manifest_as
from bystander.storage.filesystem import Store

SidKind = Literal["sid_bench", "sid_train"]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PromptsInfo(_Section):
    """The prompts of taggers and script writers."""

    name: str
    digest: str


class SidQuota(_Section):
    """Rows asked for and obtained of a category, in a language where it has one."""

    category: str
    language: str | None = None
    asked: int = Field(ge=0)
    got: int = Field(ge=0)

    @property
    def stratum(self) -> str:
        """The stratum in words."""
        return f"{self.category} in {self.language}" if self.language else self.category

    @property
    def missing(self) -> int:
        return max(0, self.asked - self.got)


class SidCounts(_Section):
    """Final rows, counted over the shards."""

    rows: int = 0
    by_split: dict[str, int] = Field(default_factory=dict)
    by_category: dict[str, int] = Field(default_factory=dict)
    by_language: dict[str, int] = Field(default_factory=dict)
    by_language_and_category: dict[str, dict[str, int]] = Field(default_factory=dict)
    by_aligner: dict[str, int] = Field(default_factory=dict)
    synthetic: int = 0
    """Rows whose speech is synthetic."""
    fallback_alignments: int = 0
    """Rows whose word times are a recogniser's."""
    recordings: int = 0
    """Different recordings that rows of speech were cut from."""
    audio_s: float = 0.0
    """Sum of the clips' durations, rounded to milliseconds."""


class SidManifest(ManifestBase):
    """Everything about a SID build."""

    kind: SidKind
    prompts: PromptsInfo
    quotas: tuple[SidQuota, ...] = ()
    """Empty where the natural distribution was asked for."""
    left_out: dict[str, str] = Field(default_factory=dict)
    """Languages that were asked for and could not be built, with the reason."""
    disjoint_from: tuple[OtherBuild, ...] = ()
    """Builds with which it shares no recording, no clip of noise and no telling text."""
    annotation: tuple[AnnotationError, ...] = ()
    """Of the synthetic rows; empty where there are none."""
    counts: SidCounts

    @property
    def shortfalls(self) -> list[SidQuota]:
        """Strata that have fewer rows than were asked for."""
        return [quota for quota in self.quotas if quota.missing]


class SidRowCounter:
    """Counts final rows, batch by batch."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {
            name: Counter() for name in ("split", "category", "language", "aligner")
        }
        self._strata: Counter[tuple[str, str]] = Counter()
        self._recordings: set[str] = set()
        self._rows = self._synthetic = self._fallbacks = 0
        self._audio_s = 0.0

    def add(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Count rows with the columns of `schemas.sid.SID_FINAL`."""
        self._rows += rows.num_rows
        for name, counter in self._counts.items():
            counter.update(value for value in rows.column(name).to_pylist() if value is not None)
        strata = zip(rows.column("language").to_pylist(), rows.column("category").to_pylist(), strict=True)
        self._strata.update((language, category) for language, category in strata if language and category)
        self._recordings.update(value for value in rows.column("recording_id").to_pylist() if value is not None)
        self._synthetic += sum(bool(value) for value in rows.column("synthetic").to_pylist())
        self._fallbacks += sum(bool(value) for value in rows.column("alignment_is_fallback").to_pylist())
        self._audio_s += sum(seconds or 0.0 for seconds in rows.column("duration_s").to_pylist())

    def finish(self) -> SidCounts:
        """Return the counts, keys sorted."""
        strata: dict[str, dict[str, int]] = {}
        for (language, category), count in sorted(self._strata.items()):
            strata.setdefault(language, {})[category] = count
        return SidCounts(
            rows=self._rows,
            by_language_and_category=strata,
            synthetic=self._synthetic,
            fallback_alignments=self._fallbacks,
            recordings=len(self._recordings),
            audio_s=round(self._audio_s, 3),
            **{f"by_{name}": dict(sorted(counter.items())) for name, counter in self._counts.items()},
        )


def read_sid_manifest(store: Store) -> SidManifest:
    """Read the `manifest.json` of a SID build.

    Raises:
        BuildError: there is none, or it is not a manifest of this format.
    """
    kind = read_build_kind(store)
    if kind.startswith(("tpi", "dyadic")):
        name = "TPI" if kind.startswith("tpi") else "dyadic"
        raise BuildError(f"{store.uri_of(MANIFEST_NAME)}: is of a {name} build ({kind}); a SID build is asked for")
    return read_manifest_as(SidManifest, store)
