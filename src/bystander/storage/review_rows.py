"""Finds the rows of a build that people review, and reads one of them with its audio."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from bystander.schemas.errors import BuildError, InputError
from bystander.schemas.review import JournalHeader, ReviewKind, RowEdits
from bystander.schemas.review_rows import ListedRow, list_light_columns, list_row, read_values
from bystander.storage.any_manifest import AnyManifest, read_any_manifest
from bystander.storage.build_manifest import FileInfo, digest_rows
from bystander.storage.filesystem import Store
from bystander.storage.parquet_files import open_parquet, telling_damage
from bystander.storage.releases import open_build
from bystander.storage.review_files import REVIEWS_FOLDER

_GROUPS_KEPT = 3
"""Row groups that are kept decoded: the next row is mostly of the same one."""
Which = Literal["rows", "rejects", "all"]


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Where a row lies: a file of the build, its row group, and its number in that."""

    file: FileInfo
    group: int
    index: int


class ReviewBuild:
    """A finished build whose rows are looked up by their ids. Threads may share it."""

    def __init__(self, address: str, which: Which = "rows") -> None:
        """Read the build's index.

        Args:
            address: folder or URL of the build.
            which: its rows, what was rejected but has audio, or both.

        Raises:
            BuildError: it is unfinished, or two rows share an id.
            StorageError: a shard is missing or damaged.
            InputError: it is of a kind that is not reviewed, or has no such rows.
        """
        self.store: Store = open_build(address)
        self.manifest: AnyManifest = read_any_manifest(self.store)
        if self.manifest.kind.startswith("dyadic"):
            raise InputError(f"{self.store.uri}: is a dyadic build; TPI and SID builds are reviewed")
        self.kind: ReviewKind = "sid" if self.manifest.kind.startswith("sid") else "tpi"
        self.digest = digest_rows(self.manifest)
        self.rows: dict[str, ListedRow] = {}
        self._places: dict[str, RowPlace] = {}
        if which != "rejects":
            self._index(self.manifest.shards)
        if which != "rows":
            self._index(self.manifest.rejects)
        if not self.rows:
            raise InputError(
                f"{self.store.uri}: has no {'rows' if which == 'rows' else 'rejects with audio'} to review"
            )
        self._guard = threading.Lock()
        self._read_group = lru_cache(_GROUPS_KEPT)(self._read_group_anew)

    @property
    def name(self) -> str:
        return f"{self.manifest.dataset}/{self.manifest.build}"

    def make_header(self, annotator: str) -> JournalHeader:
        """Return the first line of an annotator's journal."""
        names = {"dataset": self.manifest.dataset, "build": self.manifest.build}
        return JournalHeader(**names, build_digest=self.digest, annotator=annotator)

    def read_row(self, row_id: str) -> dict[str, Any]:
        """Return all columns of a row.

        Raises:
            InputError: there is no such row.
        """
        place = self._places.get(row_id)
        if place is None:
            raise InputError(f"row {row_id[:80]!r}: is not among the rows that are reviewed")
        with self._guard:
            table = self._read_group(place.file, place.group)
        row: dict[str, Any] = table.slice(place.index, 1).to_pylist()[0]
        return row

    def read_values(self, row_id: str) -> RowEdits:
        """Return a row's own values of what can be put right.

        Raises:
            InputError: there is no such row.
        """
        return read_values(self.read_row(row_id), self.kind)

    def _index(self, files: tuple[FileInfo, ...]) -> None:
        for info in files:
            for place, row in _list_rows(self.store, info):
                listed = list_row(row)
                if listed.id not in self._places:
                    self._places[listed.id] = place
                    self.rows[listed.id] = listed
                elif not listed.reject_reason:
                    raise BuildError(f"{self.store.uri}: two rows have the id {listed.id}; build it again")

    def _read_group_anew(self, info: FileInfo, group: int) -> pa.Table:
        with telling_damage(self.store, info.file), open_parquet(self.store, info.file, info.bytes) as part:
            return part.read_row_group(group)


def _list_rows(store: Store, info: FileInfo) -> Iterator[tuple[RowPlace, dict[str, Any]]]:
    """Yield the light columns of those rows of a file that have an id and a clip."""
    with telling_damage(store, info.file), open_parquet(store, info.file, info.bytes) as part:
        names = part.schema_arrow.names
        if not {"id", "audio"} <= {*names}:
            return
        light = list_light_columns(names)
        for group in range(part.num_row_groups):
            table = part.read_row_group(group, columns=[*light, "audio.path"])
            clips = table["audio"].combine_chunks().is_valid().to_pylist()
            for index, (row, has_clip) in enumerate(zip(table.select(light).to_pylist(), clips, strict=True)):
                if has_clip:
                    yield RowPlace(info, group, index), row


def find_reviews_folder(build: ReviewBuild, reviews: str | None = None) -> Path:
    """Return the folder of a build's journals: `<store>/reviews/<dataset>/<build>`, or that below `reviews`.

    Raises:
        InputError: the build lies in no store on this machine's disk, and no other folder is named.
    """
    names = (build.manifest.dataset, build.manifest.build)
    if reviews is not None:
        return Path(reviews, *names)
    folder = build.store.local_path()
    if folder is None:
        raise InputError(
            f"{build.store.uri}: is remote, and journals are written line by line, which only a local disk can; name a "
            "folder with --reviews"
        )
    if folder.parts[-2:] != names:
        raise InputError(
            f"{folder}: does not lie as {'/'.join(names)} in a store, so there is no place for journals beside it; "
            "name a folder with --reviews"
        )
    return folder.parents[1].joinpath(REVIEWS_FOLDER, *names)
