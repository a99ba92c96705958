"""The cache of single engine calls: one SQLite file a store."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
from pathlib import Path

from bystander.schemas.errors import StorageError
from bystander.schemas.identity import digest_json
from bystander.storage.filesystem import Store

_BUSY_TIMEOUT_S = 60.0
_OPEN_ATTEMPTS = 50
_OPEN_PAUSE_S = 0.1


def locate_call_cache(store: Store) -> Path:
    """Return where the calls of a store are kept: in it, or, as SQLite needs a file of this machine, in the user's
    cache folder where the store is remote.

    So each machine that works on a remote store has calls of its own. What is shared through the store are the results
    of whole stages: a partition that another machine has finished costs no call here. What another machine knows and
    this one does not are the calls of partitions that were in flight there when it stopped, at most `workers` times
    `partition_rows` rows; they are made again where that machine does not come back.
    """
    folder = store.local_path("cache")
    if folder is not None:
        return folder / "calls.sqlite"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "bystander" / "calls" / f"{digest_json(store.uri)[:16]}.sqlite"


class SqliteCallCache:
    """A `CallCache` in one file, shared by threads and by processes on one machine.

    Every `put` is committed at once into SQLite's write-ahead log, so a killed process loses nothing that was put; a
    power cut may lose the last entries, never the file. The file must lie on a local disk: the log needs shared memory.
    """

    def __init__(self, path: str | Path) -> None:
        """Open or make the file and its folder.

        Raises:
            StorageError: the file cannot be opened or is no cache of calls.
        """
        self._path = Path(path)
        self._lock = threading.Lock()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as exc:
            raise StorageError(f"call cache {self._path}: cannot be opened ({exc})") from exc
        try:
            self._prepare()
        except sqlite3.Error as exc:
            self._connection.close()
            raise StorageError(f"call cache {self._path}: is no cache of calls ({exc}); delete the file") from exc

    def get(self, key: str) -> bytes | None:
        """Return what was put under `key`, or None if there is nothing or it does not match its checksum.

        Raises:
            StorageError: the file cannot be read.
        """
        with self._lock:
            try:
                row = self._connection.execute("SELECT value, checksum FROM calls WHERE key = ?", (key,)).fetchone()
            except sqlite3.Error as exc:
                raise StorageError(f"call cache {self._path}: cannot be read ({exc})") from exc
        if row is None:
            return None
        value, checksum = row
        if not isinstance(value, bytes) or _digest(key, value) != checksum:
            return None
        return value

    def put(self, key: str, value: bytes) -> None:
        """Keep `value` under `key`, in place of an earlier one.

        Raises:
            StorageError: the file cannot be written.
        """
        checksum = _digest(key, value)
        with self._lock:
            try:
                self._connection.execute("INSERT OR REPLACE INTO calls VALUES (?, ?, ?)", (key, value, checksum))
            except sqlite3.Error as exc:
                raise StorageError(f"call cache {self._path}: cannot be written ({exc})") from exc

    def __len__(self) -> int:
        """Return the number of calls kept."""
        with self._lock:
            return int(self._connection.execute("SELECT count(*) FROM calls").fetchone()[0])

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        with self._lock:
            self._connection.close()

    def _prepare(self) -> None:
        # Processes that open a new file at the same moment collide here whatever the busy timeout is: switching to the
        # log takes the file for itself, and SQLite answers "locked" at once where waiting could deadlock.
        for attempt in range(_OPEN_ATTEMPTS):
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = NORMAL")
                self._connection.execute(
                    "CREATE TABLE IF NOT EXISTS calls "
                    "(key TEXT PRIMARY KEY, value BLOB NOT NULL, checksum BLOB NOT NULL)"
                )
                self._connection.execute("SELECT key, value, checksum FROM calls LIMIT 1")
                return
            except sqlite3.OperationalError as exc:
                if "locked" not in str(exc) or attempt == _OPEN_ATTEMPTS - 1:
                    raise
                time.sleep(_OPEN_PAUSE_S)


def _digest(key: str, value: bytes) -> bytes:
    return hashlib.sha256(key.encode("utf-8") + b"\0" + value).digest()
