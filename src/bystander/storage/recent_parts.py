"""Parts written a moment ago, as the tables that they were written from."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

import pyarrow as pa

from bystander.schemas.errors import StorageError
from bystander.storage.filesystem import Store

if TYPE_CHECKING:
    from bystander.storage.parts import PartRef

_LIMIT_BYTES = 256 << 20
"""What is kept at most: the audio of about 900 rows."""


class RecentParts:
    """Hands a table from the stage that wrote it to the next one in this process, so that it is not read again.

    The least recently used are forgotten first. One store only; for any number of threads.
    """

    def __init__(self, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._tables: OrderedDict[PartRef, pa.Table] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def keep(self, ref: PartRef, table: pa.Table) -> None:
        """Keep what was written to a part."""
        with self._lock:
            self._forget(ref)
            self._tables[ref] = table
            self._bytes += table.nbytes
            while self._bytes > self._limit:
                self._forget(next(iter(self._tables)))

    def find(self, store: Store, ref: PartRef) -> pa.Table | None:
        """Return a part's table if it is kept and the part is still there in full size."""
        with self._lock:
            table = self._tables.get(ref)
            if table is None:
                return None
            self._tables.move_to_end(ref)
        if not store.is_local:
            return table  # a put is whole, and nothing is removed while a build runs: not worth a request
        try:
            return table if store.size(ref.path) == ref.bytes else None
        except StorageError:
            return None

    def clear(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._tables.clear()
            self._bytes = 0

    def _forget(self, ref: PartRef) -> None:
        table = self._tables.pop(ref, None)
        if table is not None:
            self._bytes -= table.nbytes
