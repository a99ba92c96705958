"""Reading and writing one file of a remote filesystem with few requests and bounded memory."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import fsspec

CHUNK_BYTES = 16 << 20
"""A request asks for this much at most; several are made at once for more."""
WHOLE_BYTES = 2 << 20
"""A file up to this size is fetched in one request, whatever is read of it."""
_LEAST_BYTES = 64 << 10
SPOOL_BYTES = 8 << 20
"""What is written stays in memory up to this size."""

Fetch = Callable[[int, int], bytes]
"""Returns the bytes from a first position to before a last one."""


def fetch_range(filesystem: fsspec.AbstractFileSystem, path: str, start: int, end: int) -> bytes:
    """Return the bytes of a file from `start` to before `end`, in requests of up to `CHUNK_BYTES` made at once."""
    starts = list(range(start, end, CHUNK_BYTES))
    if len(starts) <= 1:
        return bytes(filesystem.cat_file(path, start=start, end=end)) if end > start else b""
    ends = [*starts[1:], end]
    return b"".join(filesystem.cat_ranges([path] * len(starts), starts, ends, on_error="raise"))


def fetch_whole(filesystem: fsspec.AbstractFileSystem, path: str) -> bytes:
    """Return the content of a file of unknown size, in one request."""
    try:
        return bytes(filesystem.cat_file(path, start=0))  # without a range, clients ask for the size first
    except OSError as exc:
        if exc.errno != errno.EINVAL:
            raise
        return bytes(filesystem.cat_file(path))  # no range of an empty file can be had


class RemoteFile(io.BufferedIOBase):
    """A file that is read by ranges, each fetched when it is asked for.

    Reading on from where the last read ended fetches ever more ahead, up to `CHUNK_BYTES`; a read elsewhere fetches
    what it asks for. So a Parquet footer and a few of its columns cost a request each, and a scan few.
    """

    def __init__(self, fetch: Fetch, size: int) -> None:
        self._fetch = fetch
        self._size = size
        self._at = 0
        self._window = b""
        self._start = 0
        """Where the window begins in the file."""
        self._last = -1
        """Where the last fetched range ended."""
        self._ahead = _LEAST_BYTES

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if at < 0:
            raise ValueError(f"negative position {at}")
        self._at = at
        return at

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, self._size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        known = self._known()[:wanted]
        rest = self._load(self._at + len(known), wanted - len(known)) if wanted > len(known) else b""
        self._at += wanted
        return bytes(known) + rest if known else rest

    def read1(self, size: int = -1, /) -> bytes:
        return self.read(size if size >= 0 else max(len(self._known()), _LEAST_BYTES))

    def readinto(self, buffer: Any, /) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readline(self, size: int | None = -1, /) -> bytes:
        line = bytearray()
        limit = -1 if size is None else size
        while limit < 0 or len(line) < limit:
            if not self._known():
                byte = self.read(1)  # and what lies ahead
                line += byte
                if byte in (b"", b"\n"):
                    break
                continue
            known = self._known() if limit < 0 else self._known()[: limit - len(line)]
            end = bytes(known).find(b"\n") + 1
            line += self.read(end or len(known))
            if end:
                break
        return bytes(line)

    def _known(self) -> memoryview:
        start = self._at - self._start
        return memoryview(self._window)[start:] if 0 <= start < len(self._window) else memoryview(b"")

    def _load(self, start: int, count: int) -> bytes:
        """Fetch `count` bytes, and what lies ahead of them; return the former."""
        if self._size <= WHOLE_BYTES:
            self._window, self._start = self._fetch(0, self._size), 0
            return self._window[start : start + count]
        self._ahead = min(2 * self._ahead, CHUNK_BYTES) if start == self._last else _LEAST_BYTES
        end = min(self._size, start + max(count, self._ahead))
        data = self._fetch(start, end)
        self._last = end
        if len(data) > count:
            self._window, self._start = data, start
            return data[:count]
        self._window = b""  # nothing of it is left to read
        return data


class Spool(io.RawIOBase):
    """Takes what is written to a file until it is uploaded: in memory, and from `SPOOL_BYTES` on in a temporary file.

    An object store publishes a file as a whole, and a package that streams would publish half of it when the writer
    fails. From a file on the disk, several parts can be uploaded at once, and each sent again where one fails.
    """

    def __init__(self) -> None:
        self._memory = io.BytesIO()
        self._disk: IO[bytes] | None = None
        self._path: Path | None = None
        self._is_named = True

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        view = memoryview(data)
        if self._disk is None and self._memory.tell() + view.nbytes > SPOOL_BYTES:
            descriptor, name = tempfile.mkstemp(prefix="bystander-")
            self._disk = os.fdopen(descriptor, "wb")
            self._path = Path(name)
            if (held := Path(f"/proc/self/fd/{descriptor}")).exists():
                self._path.unlink()  # so that a killed process leaves nothing on the disk
                self._path, self._is_named = held, False
            self._disk.write(self._memory.getbuffer())
            self._memory = io.BytesIO()
        (self._disk or self._memory).write(view)
        return view.nbytes

    def upload(self, filesystem: fsspec.AbstractFileSystem, path: str, **options: Any) -> None:
        """Put what was written under a path; `options` are for a file too big for memory."""
        if self._disk is None:
            filesystem.pipe_file(path, self._memory.getvalue())
        else:
            self._disk.flush()
            filesystem.put_file(str(self._path), path, **options)

    def discard(self) -> None:
        """Leave nothing on the disk."""
        if self._disk is not None:
            with contextlib.suppress(OSError):  # of a full disk, whose error was raised before
                self._disk.close()
        if self._path is not None and self._is_named:
            self._path.unlink(missing_ok=True)
