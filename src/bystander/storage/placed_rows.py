"""All rows and rejects of a build with where they lie, and one of them read with its audio."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bystander.schemas.row_sounds import HEAVY_COLUMNS
from bystander.storage.any_manifest import AnyManifest, read_any_manifest
from bystander.storage.build_manifest import FileInfo
from bystander.storage.filesystem import Store
from bystander.storage.parquet_files import open_parquet, telling_damage
from bystander.storage.releases import open_build

_GROUPS_KEPT = 4
"""Row groups that are kept read: neighbours on a page are mostly of the same one. Each has 64 MiB of audio at most."""


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Where a row lies: a file of the build, its row group, its number in that, and in the whole file."""

    file: FileInfo
    group: int
    index: int
    number: int


class PlacedRows:
    """A finished build whose rows and rejects are read one by one. Threads may share it."""

    def __init__(self, address: str) -> None:
        """Open the build.

        Raises:
            BuildError: it is unfinished.
        """
        self.store: Store = open_build(address)
        self.manifest: AnyManifest = read_any_manifest(self.store)
        self._guard = threading.Lock()
        self._read_group = lru_cache(_GROUPS_KEPT)(self._read_group_anew)

    @property
    def name(self) -> str:
        """Dataset and build."""
        return f"{self.manifest.dataset}/{self.manifest.build}"

    def list(self) -> Iterator[tuple[RowPlace, dict[str, Any]]]:
        """Yield the place of every row, then of every reject, each with its columns but those that hold audio.

        A row group is in memory at a time.

        Raises:
            StorageError: a file is missing or damaged.
        """
        for info in (*self.manifest.shards, *self.manifest.rejects):
            with self._open(info) as part:
                light = [name for name in part.schema_arrow.names if name not in HEAVY_COLUMNS]
                number = 0
                for group in range(part.num_row_groups):
                    rows = part.read_row_group(group, columns=light).to_pylist()
                    for index, row in enumerate(rows):
                        yield RowPlace(info, group, index, number), row
                        number += 1

    def read(self, place: RowPlace) -> dict[str, Any]:
        """Return all columns of a row.

        Raises:
            StorageError: its file is missing by now, or damaged.
        """
        with self._guard:
            table = self._read_group(place.file, place.group)
        row: dict[str, Any] = table.slice(place.index, 1).to_pylist()[0]
        return row

    def _read_group_anew(self, info: FileInfo, group: int) -> pa.Table:
        with self._open(info) as part:
            return part.read_row_group(group)

    @contextlib.contextmanager
    def _open(self, info: FileInfo) -> Iterator[pq.ParquetFile]:
        with telling_damage(self.store, info.file), open_parquet(self.store, info.file, info.bytes) as part:
            yield part
