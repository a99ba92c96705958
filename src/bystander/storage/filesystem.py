"""One folder of files on any fsspec filesystem, in which a file is either whole or not there."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import posixpath
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast
from uuid import uuid4

import fsspec
from fsspec.implementations.local import LocalFileSystem

from bystander.schemas.errors import InputError, StorageError

_TEMPORARY_PREFIX = ".writing-"
DISK_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})
"""What the system says when it is the disk that is full or broken, not the file that is read."""


class Store:
    """A folder, local or remote (`s3://bucket/folder`, `memory://folder`, ...), that may not exist yet.

    All methods take paths relative to the folder, with forward slashes; "" is the folder itself. Local files are
    written aside, flushed to the disk and renamed; remote ones are spooled locally and uploaded in one put, which
    object stores publish as a whole. Readers and `list` never see a file that is still being written.

    Methods raise `StorageError` when the filesystem refuses; instances may be shared between threads.
    """

    def __init__(self, uri: str | os.PathLike[str]) -> None:
        """Open no connection and create nothing.

        Raises:
            InputError: the address is empty, its protocol is unknown, or the package for it is not installed.
        """
        if not os.fspath(uri).strip():
            raise InputError(f"store {os.fspath(uri)!r}: is empty; name a folder or URL")
        try:
            filesystem, root = fsspec.core.url_to_fs(os.fspath(uri))
        except (ValueError, ImportError) as exc:
            raise InputError(f"store {os.fspath(uri)}: cannot be opened ({exc})") from exc
        self._filesystem = filesystem
        self._is_local = isinstance(filesystem, LocalFileSystem)
        self._root = cast(str, root).rstrip("/") or "/"

    def __repr__(self) -> str:
        return f"Store({self.uri!r})"

    @property
    def uri(self) -> str:
        """The folder: an absolute path if it is local, else with its protocol."""
        return self.uri_of("")

    @property
    def filesystem(self) -> fsspec.AbstractFileSystem:
        """The fsspec filesystem, for libraries that want one."""
        return self._filesystem

    def uri_of(self, path: str) -> str:
        """Return how to name a file outside this store, in messages and to other libraries."""
        full = self._full(path)
        return full if self._is_local else cast(str, self._filesystem.unstrip_protocol(full))

    def path(self, *names: str) -> str:
        """Join names to a path of this store.

        Raises:
            StorageError: the path would lie outside the store.
        """
        joined = posixpath.normpath(posixpath.join("", *names)) if any(names) else ""
        if joined.startswith(("/", "../")) or joined == "..":
            raise StorageError(f"{joined}: lies outside the store {self.uri}")
        return "" if joined == "." else joined

    def child(self, *names: str) -> Store:
        """Return the store of a folder below."""
        return Store(self.uri_of(self.path(*names)))

    def exists(self, path: str) -> bool:
        """Return whether a file or folder is there."""
        with self._wrap_errors(path, "looked up"):
            return bool(self._filesystem.exists(self._full(path)))

    def size(self, path: str) -> int:
        """Return a file's size in bytes."""
        with self._wrap_errors(path, "looked up"):
            return int(self._filesystem.size(self._full(path)))

    def stamp(self, path: str) -> str:
        """Return a token that differs once a file has been written again: of its size, times and place, or its ETag."""
        with self._wrap_errors(path, "looked up"):
            return str(self._filesystem.ukey(self._full(path)))

    def sha256(self, path: str) -> str:
        """Return the SHA-256 hex digest of a file."""
        digest = hashlib.sha256()
        with self.open_read(path) as source:
            while chunk := source.read(1 << 20):
                digest.update(chunk)
        return digest.hexdigest()

    def read_bytes(self, path: str) -> bytes:
        """Return a file's content."""
        with self._wrap_errors(path, "read"):
            return cast(bytes, self._filesystem.cat_file(self._full(path)))

    def open_read(self, path: str) -> IO[bytes]:
        """Open a file for seeking reads; the caller closes it."""
        with self._wrap_errors(path, "read"):
            return cast(IO[bytes], self._filesystem.open(self._full(path), "rb"))

    def write_bytes(self, path: str, data: bytes, durable: bool = True) -> None:
        """Write a file at once, over an older one if there is any; `durable` as in `open_write`."""
        with self.open_write(path, durable) as sink:
            sink.write(data)

    @contextlib.contextmanager
    def open_write(self, path: str, durable: bool = True) -> Iterator[IO[bytes]]:
        """Open a file that appears under its name when the block ends, and not at all when the block raises.

        Without `durable` a local file is not flushed to the disk: a power cut, unlike the end of the process, may leave
        it empty or damaged. That is for caches whose readers would notice.
        """
        full = self._full(path)
        if self._is_local:
            parent, name = posixpath.split(full)
            aside = Path(parent) / f"{_TEMPORARY_PREFIX}{name}-{uuid4().hex[:12]}"
            with self._wrap_errors(path, "written"):
                aside.parent.mkdir(parents=True, exist_ok=True)
        else:
            descriptor, spool = tempfile.mkstemp(prefix="bystander-")
            os.close(descriptor)
            aside = Path(spool)
        try:
            with self._wrap_errors(path, "written"):
                sink = aside.open("wb")
            try:
                with sink:
                    yield sink
                    sink.flush()
                    if self._is_local and durable:
                        os.fsync(sink.fileno())
            except OSError as exc:
                if exc.errno in DISK_ERRNOS:
                    raise StorageError(f"{self.uri_of(path)}: cannot be written ({exc.strerror})") from exc
                raise
            with self._wrap_errors(path, "written"):
                if self._is_local:
                    aside.replace(full)
                    if durable:
                        _flush_folder(Path(full).parent)
                else:
                    self._filesystem.put_file(str(aside), full)
        finally:
            aside.unlink(missing_ok=True)

    def list_sizes(self, path: str = "", temporary: bool = False) -> dict[str, int]:
        """Return the paths of all files below a folder at any depth, with their sizes in bytes.

        With `temporary` they are those that are being written, or that killed writers left.
        """
        with self._wrap_errors(path, "listed"):
            self._filesystem.invalidate_cache()
            found = self._filesystem.find(self._full(path), detail=True)
        above = len(self._root.rstrip("/")) + 1
        return {
            name[above:]: int(info["size"])
            for name, info in sorted(found.items())
            if posixpath.basename(name).startswith(_TEMPORARY_PREFIX) == temporary
        }

    def list_folders(self, path: str = "") -> list[str]:
        """Return the names of the folders directly in a folder, sorted; none if it is missing."""
        with self._wrap_errors(path, "listed"):
            self._filesystem.invalidate_cache()
            try:
                found = self._filesystem.ls(self._full(path), detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return []
        return sorted(posixpath.basename(item["name"].rstrip("/")) for item in found if item["type"] == "directory")

    def list(self, path: str = "") -> list[str]:
        """Return the paths of all files below a folder at any depth, sorted; none if the folder is missing."""
        full = self._full(path)
        with self._wrap_errors(path, "listed"):
            self._filesystem.invalidate_cache()
            found = cast(list[str], self._filesystem.find(full))
        above = len(self._root.rstrip("/")) + 1
        return sorted(name[above:] for name in found if not posixpath.basename(name).startswith(_TEMPORARY_PREFIX))

    def remove(self, path: str, recursive: bool = False) -> None:
        """Remove a file, or with `recursive` a folder and all below it; one that is not there is no error."""
        with self._wrap_errors(path, "removed"), contextlib.suppress(FileNotFoundError):
            self._filesystem.rm(self._full(path), recursive=recursive)

    def remove_temporaries(self, path: str = "") -> None:
        """Remove what killed writers left below a folder. Only for a folder that nobody writes to."""
        with self._wrap_errors(path, "cleaned"):
            for name in self._filesystem.find(self._full(path)):
                if posixpath.basename(name).startswith(_TEMPORARY_PREFIX):
                    self._filesystem.rm_file(name)

    def move(self, source: str, target: str) -> None:
        """Rename a file, over an older one if there is any. Object stores copy and delete."""
        with self._wrap_errors(source, "moved"):
            if self._is_local:
                full = Path(self._full(target))
                full.parent.mkdir(parents=True, exist_ok=True)
                Path(self._full(source)).replace(full)
                _flush_folder(full.parent)
            else:
                self._filesystem.cp_file(self._full(source), self._full(target))
                self._filesystem.rm_file(self._full(source))

    def local_path(self, path: str = "") -> Path | None:
        """Return the path on this machine's disk, or None where the store is remote."""
        return Path(self._full(path)) if self._is_local else None

    def download(self, path: str, target: Path) -> None:
        """Copy a file to this machine's disk."""
        with self._wrap_errors(path, "read"), self.open_read(path) as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)

    def _full(self, path: str) -> str:
        path = self.path(path)
        return posixpath.join(self._root, path) if path else self._root

    @contextlib.contextmanager
    def _wrap_errors(self, path: str, verb: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as exc:
            raise StorageError(f"{self.uri_of(path)}: is missing") from exc
        except OSError as exc:
            raise StorageError(f"{self.uri_of(path)}: cannot be {verb} ({exc.strerror or exc})") from exc


def open_store(uri: str | os.PathLike[str]) -> Store:
    """Return the store of a local folder or an fsspec URL.

    Raises:
        InputError: the protocol is unknown, or its package is not installed.
    """
    return Store(uri)


def open_file(path: str) -> tuple[Store, str]:
    """Return the store of the folder that a file lies in, and the file's name there, from a path or fsspec URL.

    Raises:
        InputError: the protocol is unknown, or its package is not installed.
    """
    folder, slash, name = path.rpartition("/")
    return Store(folder or slash or "."), name


def _flush_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
