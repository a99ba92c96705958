"""A store that can be written to without a trace: what is written stays in memory and lies over what is stored."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from bystander.schemas.errors import StorageError
from bystander.storage.filesystem import Store


class ScratchStore(Store):
    """Reads another store, whose files it never changes. Meant for small files: bases, layers, notes.

    Files can be read, written and sized; nothing can be removed or moved, and folders are listed as they are stored.
    """

    def __init__(self, below: Store) -> None:
        super().__init__(below.uri)
        self._written: dict[str, bytes] = {}

    def exists(self, path: str) -> bool:
        return self.path(path) in self._written or super().exists(path)

    def size(self, path: str) -> int:
        data = self._written.get(self.path(path))
        return super().size(path) if data is None else len(data)

    def read_bytes(self, path: str, size: int | None = None) -> bytes:
        data = self._written.get(self.path(path))
        return super().read_bytes(path, size) if data is None else data

    def open_read(self, path: str, size: int | None = None) -> IO[bytes]:
        data = self._written.get(self.path(path))
        return super().open_read(path, size) if data is None else io.BytesIO(data)

    @contextlib.contextmanager
    def open_write(self, path: str, durable: bool = True) -> Iterator[IO[bytes]]:
        del durable
        sink = io.BytesIO()
        yield sink
        self._written[self.path(path)] = sink.getvalue()

    def create(self, path: str, data: bytes) -> bool:
        if self.exists(path):
            return False
        self._written[self.path(path)] = data
        return True

    def list_sizes(self, path: str = "", temporary: bool = False) -> dict[str, int]:
        folder = self.path(path)
        own = {} if temporary else {name: len(data) for name, data in self._written.items()}
        below = super().list_sizes(path, temporary)
        return below | {name: size for name, size in own.items() if not folder or name.startswith(f"{folder}/")}

    def remove(self, path: str, recursive: bool = False) -> None:
        del recursive
        raise StorageError(f"{self.uri_of(path)}: is not to be removed by a plan")

    def move(self, source: str, target: str) -> None:
        raise StorageError(f"{self.uri_of(source)}: is not to be moved to {target} by a plan")

    def local_path(self, path: str = "") -> Path | None:
        return None if path and self.path(path) in self._written else super().local_path(path)
