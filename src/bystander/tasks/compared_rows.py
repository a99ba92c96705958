"""The rows of a finished build as a comparison of packs sees them: published, left out and rejected ones, by id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bystander.schemas.errors import BuildError, StorageError
from bystander.storage.build_contents import read_columns
from bystander.storage.build_manifest import BuildManifest, read_manifest
from bystander.storage.filesystem import Store
from bystander.storage.parquet_files import open_parquet
from bystander.storage.releases import open_build

PUBLISHED = "published"

_TEXTS = ("id", "query_id", "language", "request", "scenario", "timing")
_COLUMNS = (
    *_TEXTS,
    "primary_complete",
    "primary_text",
    "third_party_text",
    "n_speakers",
    "label",
    "label_score",
    "kind",
    "reply",
    "write_attempts",
    "reply_attempts",
)
_REJECT_COLUMNS = ("reject_stage", "reject_reason")
_OF_THE_TWIN = "build_hard_negatives"
"""Its rejects bear the ids of two-speaker rows, which are well: what was rejected is their twin."""


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A row and how far it came. What a rejected row did not get to is None."""

    id: str
    query_id: str
    language: str
    request: str
    scenario: str
    timing: str
    primary_complete: str | None
    primary_text: str | None
    third_party_text: str | None
    n_speakers: int
    label: str | None
    label_score: float | None
    kind: str | None
    reply: str | None
    write_attempts: int | None
    reply_attempts: int | None
    fate: str
    """`published`, or `stage: reason` of its reject."""

    @property
    def is_published(self) -> bool:
        return self.fate == PUBLISHED

    @property
    def words(self) -> tuple[str | None, str | None, str | None]:
        """What is said: rows of the same id may be written differently."""
        return self.primary_complete, self.primary_text, self.third_party_text


@dataclass(frozen=True, slots=True)
class ComparedBuild:
    """A finished build and its rows; `pairs` have two speakers, `singles` one."""

    address: str
    manifest: BuildManifest
    pairs: Mapping[str, ComparedRow]
    singles: Mapping[str, ComparedRow]


def read_compared_build(address: str) -> ComparedBuild:
    """Read the texts of a finished build, rejects included; no audio is read.

    Raises:
        BuildError: it is no finished TPI build, or one that was cut from another and has no rejects of its own.
        StorageError: a file cannot be read.
    """
    store = open_build(address)
    manifest = read_manifest(store)
    if manifest.kind == "tpi_parts":
        raise BuildError(f"{store.uri}: was cut from another build; compare that one: {_name_origin(manifest)}")
    pairs: dict[str, ComparedRow] = {}
    singles: dict[str, ComparedRow] = {}
    # A row that several steps refused stands under the last; one that is published is so, whatever else was tried.
    for row in (*_read_rejects(store, manifest), *_read_published(store, manifest)):
        rows = pairs if row.n_speakers == 2 else singles
        rows[row.id] = row
    return ComparedBuild(address, manifest, pairs, singles)


def _name_origin(manifest: BuildManifest) -> str:
    return manifest.parts_of.of.uri if manifest.parts_of is not None else "the one that it was cut from"


def _read_published(store: Store, manifest: BuildManifest) -> Iterator[ComparedRow]:
    for _, batch in read_columns(store, manifest, _COLUMNS):
        for row in batch.to_pylist():
            yield ComparedRow(**row, fate=PUBLISHED)


def _read_rejects(store: Store, manifest: BuildManifest) -> Iterator[ComparedRow]:
    """Yield rejects that have an id: those of requests, before rows are drawn from them, have none."""
    for info in manifest.rejects:
        try:
            with open_parquet(store, info.file, info.bytes) as file:
                there = set(file.schema_arrow.names)
                if not {*_TEXTS, *_REJECT_COLUMNS} <= there:
                    continue
                names = [name for name in (*_COLUMNS, *_REJECT_COLUMNS) if name in there]
                rows = file.read(columns=names).to_pylist()
        except (pa.ArrowException, OSError, ValueError) as exc:
            reason = str(exc).splitlines()[0].rstrip(".")
            raise StorageError(f"{store.uri_of(info.file)}: cannot be read as Parquet ({reason})") from exc
        for row in rows:
            if row["reject_stage"] != _OF_THE_TWIN:
                yield _make_reject(row)


def _make_reject(row: Mapping[str, Any]) -> ComparedRow:
    cells: dict[str, Any] = {name: row.get(name) for name in _COLUMNS}
    return ComparedRow(
        **{**cells, "n_speakers": cells["n_speakers"] or 2},
        fate=f"{row['reject_stage']}: {row['reject_reason']}",
    )
