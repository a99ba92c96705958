"""`manifest.json` of a dyadic build."""

from __future__ import annotations

from collections import Counter
from typing import Literal, Self

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, model_validator

from bystander.schemas.dyadic import DYADIC_LABEL
from bystander.schemas.errors import BuildError
from bystander.storage.build_manifest import (
    MANIFEST_NAME,
    ManifestBase,
    OtherBuild,
    PackInfo,
    Quota,
    VoicesDisjointBy,
    read_build_kind,
    read_manifest_as,
)
from bystander.storage.filesystem import Store

DyadicKind = Literal["dyadic"]
DYADIC_KIND: DyadicKind = "dyadic"


class DyadicCounts(BaseModel):
    """Final rows, counted over the shards."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: int = 0
    by_split: dict[str, int] = Field(default_factory=dict)
    by_language: dict[str, int] = Field(default_factory=dict)
    voices: int = 0
    """Different voices."""
    speech_s: float = 0.0
    """Sum of the clips' durations, rounded to milliseconds."""


class DyadicRequests(BaseModel):
    """What became of the requests of the TPI build: each is used once, or passed over for one reason."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    there: int = Field(ge=0)
    """Different requests of the TPI build."""
    used: int = Field(ge=0)
    """Those with a row in this build."""
    passed_over: dict[str, int] = Field(default_factory=dict)
    """The others, by reason."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if self.used + sum(self.passed_over.values()) != self.there:
            raise ValueError(f"{self.used} used and {sum(self.passed_over.values())} passed over are not {self.there}")
        return self


class DyadicManifest(ManifestBase):
    """Everything about a dyadic build."""

    kind: DyadicKind
    pack: PackInfo
    made_from: OtherBuild
    """The TPI build that its requests, replies and voices are of."""
    disjoint_from: tuple[OtherBuild, ...] = ()
    """Builds that the TPI build shares no query and no text with; so this one shares none with them either."""
    voices_disjoint_by: VoicesDisjointBy = "pair"
    """Whether that holds of each voice, too."""
    licence: str = "other"
    """That of the TPI build."""
    asked: int | None = None
    """Rows that were asked for; null for all that there could be."""
    requests: DyadicRequests | None = None
    """Null in builds of before this was counted."""
    counts: DyadicCounts

    @property
    def shortfalls(self) -> list[Quota]:
        """The number of rows, where it is below what was asked for."""
        quota = Quota(label=DYADIC_LABEL, asked=self.asked or 0, got=self.counts.rows)
        return [quota] if quota.missing else []


class DyadicRowCounter:
    """Counts final rows, batch by batch."""

    def __init__(self) -> None:
        self._splits: Counter[str] = Counter()
        self._languages: Counter[str] = Counter()
        self._voices: set[str] = set()
        self._rows = 0
        self._speech_s = 0.0

    def add(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Count rows with the columns of `schemas.dyadic.DYADIC_FINAL`."""
        self._rows += rows.num_rows
        self._splits.update(rows.column("split").to_pylist())
        self._languages.update(rows.column("language").to_pylist())
        self._voices.update(rows.column("primary_voice").to_pylist())
        self._speech_s += sum(seconds or 0.0 for seconds in rows.column("duration_s").to_pylist())

    def finish(self) -> DyadicCounts:
        """Return the counts, keys sorted."""
        return DyadicCounts(
            rows=self._rows,
            by_split=dict(sorted(self._splits.items())),
            by_language=dict(sorted(self._languages.items())),
            voices=len(self._voices),
            speech_s=round(self._speech_s, 3),
        )


def read_dyadic_manifest(store: Store) -> DyadicManifest:
    """Read the `manifest.json` of a dyadic build.

    Raises:
        BuildError: there is none, or it is not a manifest of this format.
    """
    kind = read_build_kind(store)
    if kind != DYADIC_KIND:
        raise BuildError(f"{store.uri_of(MANIFEST_NAME)}: is of another build ({kind}); a dyadic build is asked for")
    return read_manifest_as(DyadicManifest, store)
