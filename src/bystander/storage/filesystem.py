"""One folder of files on any fsspec filesystem, in which a file is either whole or not there."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import posixpath
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import IO, Any, TypeVar, cast
from uuid import uuid4

import fsspec
from fsspec.implementations.local import LocalFileSystem

from bystander.schemas.errors import (
    BystanderError,
    InputError,
    MissingFileError,
    StorageError,
    StoreError,
)
from bystander.storage.filesystem_opening import open_filesystem
from bystander.storage.object_stores import (
    abort_uploads,
    find_object_store,
    is_refused_creation,
    translate_error,
)
from bystander.storage.remote_files import CHUNK_BYTES, RemoteFile, Spool, fetch_range, fetch_whole

TEMPORARY_PREFIX = ".writing-"
"""How files begin that are not to be seen yet."""
DISK_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})
"""What the system says when it is the disk that is full or broken, not the file that is read."""


_READ_AT_ONCE = 16
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Store:
    """A folder, local or remote (`s3://bucket/folder`, `memory://folder`, ...), that may not exist yet.

    All methods take paths relative to the folder, with forward slashes; "" is the folder itself. Readers and `list`
    never see a file that is still being written: local files are written aside, flushed to the disk and renamed; remote
    ones are kept here until they are whole and put in one go, which object stores publish as a whole (a big one as a
    multipart upload, of which nothing is seen until it is completed).

    A remote file is durable once its put has returned; there is nothing to flush. Nothing here relies on renaming in an
    object store, nor on a listing that is remembered: listings are asked for anew each time, and the stores that are
    in use today list what was put before.

    Settings of a remote store (endpoint, keys, region) are those of its own package: its environment variables, its
    configuration files, or fsspec's (`FSSPEC_S3_ENDPOINT_URL`, say). A client tries again by itself when a store is
    briefly overloaded.

    Methods raise `StorageError` where the filesystem refuses a file (`MissingFileError` where there is none), and
    `StoreError` where a remote store as a whole cannot be used. Instances may be shared between threads, sent to other
    processes, and used after a fork: each process has connections of its own.
    """

    def __init__(self, uri: str | os.PathLike[str]) -> None:
        """Create nothing, and open no connection but of protocols whose clients do so at once, such as FTP.

        Raises:
            InputError: the address is empty, its protocol is unknown, or the package for it is not installed.
            StoreAccessError: there is no such server, or it does not let us in.
            StoreUnavailableError: the server does not answer now.
        """
        self._address = os.fspath(uri)
        if not self._address.strip():
            raise InputError(f"store {self._address!r}: is empty; name a folder or URL")
        self._opened, root = open_filesystem(self._address)
        self._owner = os.getpid()
        self._is_local = isinstance(self._opened, LocalFileSystem)
        self._root = root.rstrip("/") or "/"

    def __repr__(self) -> str:
        return f"Store({self.uri!r})"

    def __reduce__(self) -> tuple[type[Store], tuple[str]]:
        return Store, (self.uri,)

    @property
    def uri(self) -> str:
        """The folder: an absolute path if it is local, else with its protocol."""
        return self.uri_of("")

    @property
    def is_local(self) -> bool:
        """Whether it is on a disk of this machine."""
        return self._is_local

    @property
    def filesystem(self) -> fsspec.AbstractFileSystem:
        """The fsspec filesystem, for libraries that want one."""
        if self._owner != os.getpid():  # connections and threads of the parent are of no use in a fork
            self._opened, _ = open_filesystem(self._address)
            self._owner = os.getpid()
        return self._opened

    def uri_of(self, path: str) -> str:
        """Return how to name a file outside this store, in messages and to other libraries."""
        full = self._full(path)
        return full if self._is_local else cast(str, self._opened.unstrip_protocol(full))

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
            return bool(self.filesystem.exists(self._full(path)))

    def size(self, path: str) -> int:
        """Return a file's size in bytes."""
        with self._wrap_errors(path, "looked up"):
            return int(self.filesystem.size(self._full(path)))

    def holds(self, path: str, size: int) -> bool:
        """Return whether a file is there in this size, in bytes."""
        try:
            return self.size(path) == size
        except MissingFileError:
            return False

    def modified(self, path: str) -> datetime:
        """Return when a file was last written, by the clock of whoever keeps it."""
        with self._wrap_errors(path, "looked up"):
            return cast(datetime, self.filesystem.modified(self._full(path)))

    def stamp(self, path: str) -> str:
        """Return a token that differs once a file has been written again: of its size, times and place, or its ETag."""
        with self._wrap_errors(path, "looked up"):
            return str(self.filesystem.ukey(self._full(path)))

    def sha256(self, path: str) -> str:
        """Return the SHA-256 hex digest of a file."""
        digest = hashlib.sha256()
        with self.open_read(path) as source:
            while chunk := source.read(self._stride):
                digest.update(chunk)
        return digest.hexdigest()

    def read_bytes(self, path: str, size: int | None = None) -> bytes:
        """Return a file's content. A known `size` in bytes lets a remote store send a big file in parts at once."""
        full = self._full(path)
        with self._wrap_errors(path, "read"):
            if self._is_local:
                return cast(bytes, self.filesystem.cat_file(full))
            if size:
                return fetch_range(self.filesystem, full, 0, size)
            return fetch_whole(self.filesystem, full)

    def open_read(self, path: str, size: int | None = None) -> IO[bytes]:
        """Open a file for seeking reads; the caller closes it. A remote one is fetched by ranges as it is read.

        A `size` in bytes, where it is known, saves a remote store the question; it must be right.
        """
        full = self._full(path)
        with self._wrap_errors(path, "read"):
            if self._is_local:
                return cast(IO[bytes], self.filesystem.open(full, "rb"))
            if size is None:
                size = int(self.filesystem.size(full))

        def fetch(start: int, end: int) -> bytes:
            with self._wrap_errors(path, "read"):
                return fetch_range(self.filesystem, full, start, end)

        return cast(IO[bytes], RemoteFile(fetch, size))

    def write_bytes(self, path: str, data: bytes, durable: bool = True) -> None:
        """Write a file at once, over an older one if there is any; `durable` as in `open_write`."""
        with self.open_write(path, durable) as sink:
            sink.write(data)

    @contextlib.contextmanager
    def open_write(self, path: str, durable: bool = True) -> Iterator[IO[bytes]]:
        """Open a file that appears under its name when the block ends, and not at all when the block raises.

        Without `durable` a local file is not flushed to the disk: a power cut, unlike the end of the process, may leave
        it empty or damaged. That is for caches whose readers would notice. For a remote one it makes no difference.
        """
        if not self._is_local:
            with self._open_spool(path) as spool:
                yield cast(IO[bytes], spool)
            return
        full = self._full(path)
        parent, name = posixpath.split(full)
        aside = Path(parent) / f"{TEMPORARY_PREFIX}{name}-{uuid4().hex[:12]}"
        with self._wrap_errors(path, "written"):
            aside.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self._wrap_errors(path, "written"):
                sink = aside.open("wb")
            with self._wrap_full_disk(path), sink:
                yield sink
                sink.flush()
                if durable:
                    os.fsync(sink.fileno())
            with self._wrap_errors(path, "written"):
                aside.replace(full)
                if durable:
                    _flush_folder(Path(full).parent)
        finally:
            aside.unlink(missing_ok=True)

    def create(self, path: str, data: bytes) -> bool:
        """Write a file if there is none, and return whether it was written: of several who try at once, one succeeds.

        Remote stores need conditional puts for it, as S3, Google Cloud Storage and Azure have. A server that has none
        either writes each time or says that it cannot.

        Raises:
            StorageError: it cannot be written, for instance because the server knows no conditional puts.
        """
        full = self._full(path)
        with self._wrap_errors(path, "created"):
            try:
                if self._is_local:
                    Path(full).parent.mkdir(parents=True, exist_ok=True)
                    with Path(full).open("xb") as sink:
                        sink.write(data)
                else:
                    self.filesystem.pipe_file(full, data, mode="create")
            except Exception as exc:
                if is_refused_creation(exc):
                    return False
                raise
        return True

    def list_sizes(self, path: str = "", temporary: bool = False) -> dict[str, int]:
        """Return the paths of all files below a folder at any depth, with their sizes in bytes.

        With `temporary` they are those that are being written, or that killed writers left.
        """
        return {name: int(info["size"]) for name, info in self._find(path, temporary).items()}

    def list_folders(self, path: str = "") -> list[str]:
        """Return the names of the folders directly in a folder, sorted; none if it is missing."""
        with self._wrap_errors(path, "listed"):
            self.filesystem.invalidate_cache()
            try:
                found = self.filesystem.ls(self._full(path), detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return []
        return sorted(posixpath.basename(item["name"].rstrip("/")) for item in found if item["type"] == "directory")

    def list(self, path: str = "") -> list[str]:
        """Return the paths of all files below a folder at any depth, sorted; none if the folder is missing."""
        return [*self._find(path, False)]

    def remove(self, path: str, recursive: bool = False) -> None:
        """Remove a file, or with `recursive` a folder and all below it; one that is not there is no error."""
        with self._wrap_errors(path, "removed"), contextlib.suppress(FileNotFoundError):
            if recursive or self._is_local:
                self.filesystem.rm(self._full(path), recursive=recursive)
            else:
                self.filesystem.rm_file(self._full(path))

    def remove_temporaries(self, path: str = "") -> None:
        """Remove what killed writers left below a folder. Only for a folder that nobody writes to."""
        for name in self._find(path, True):
            self.remove(name)
        if not self._is_local:
            with contextlib.suppress(StorageError, StoreError), self._wrap_errors(path, "cleaned"):  # a nicety
                abort_uploads(self.filesystem, self._full(path))

    def move(self, source: str, target: str) -> None:
        """Rename a file, over an older one if there is any. Object stores copy, on their side, and delete."""
        with self._wrap_errors(source, "moved"):
            if self._is_local:
                full = Path(self._full(target))
                full.parent.mkdir(parents=True, exist_ok=True)
                Path(self._full(source)).replace(full)
                _flush_folder(full.parent)
            else:
                self.filesystem.cp_file(self._full(source), self._full(target))
                self.filesystem.rm_file(self._full(source))

    def local_path(self, path: str = "") -> Path | None:
        """Return the path on this machine's disk, or None where the store is remote."""
        return Path(self._full(path)) if self._is_local else None

    def download(self, path: str, target: Path) -> None:
        """Copy a file to this machine's disk."""
        with self.open_read(path) as source, self._wrap_errors(path, "read"), target.open("wb") as sink:
            shutil.copyfileobj(source, sink, self._stride)

    def map(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Sequence[_Result]:
        """Return what a function that reads this store makes of each item, in order.

        In a remote store, where every request takes a while, several are read at once, in threads.
        """
        listed = [*items]
        if self._is_local or len(listed) < 2:
            return [function(item) for item in listed]
        with ThreadPoolExecutor(_READ_AT_ONCE, "bystander-store") as pool:
            return [*pool.map(function, listed)]

    @property
    def _stride(self) -> int:
        """Bytes to read at once from a file that is read from end to end."""
        return 1 << 20 if self._is_local else 2 * CHUNK_BYTES

    def _find(self, path: str, temporary: bool) -> dict[str, dict[str, Any]]:
        with self._wrap_errors(path, "listed"):
            self.filesystem.invalidate_cache()
            found = self.filesystem.find(self._full(path), detail=True)
        above = len(self._root.rstrip("/")) + 1
        return {
            name[above:]: info
            for name, info in sorted(found.items())
            if posixpath.basename(name).startswith(TEMPORARY_PREFIX) == temporary
        }

    @contextlib.contextmanager
    def _open_spool(self, path: str) -> Iterator[Spool]:
        spool = Spool()
        try:
            with self._wrap_full_disk(path):
                yield spool
            kind = find_object_store(self.uri)
            with self._wrap_errors(path, "written"):
                spool.upload(self.filesystem, self._full(path), **(kind.upload_options if kind else {}))
        finally:
            spool.discard()

    def _full(self, path: str) -> str:
        path = self.path(path)
        return posixpath.join(self._root, path) if path else self._root

    @contextlib.contextmanager
    def _wrap_full_disk(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            if exc.errno in DISK_ERRNOS:
                raise StorageError(f"{self.uri_of(path)}: cannot be written ({exc.strerror})") from exc
            raise

    @contextlib.contextmanager
    def _wrap_errors(self, path: str, verb: str) -> Iterator[None]:
        try:
            yield
        except BystanderError:
            raise
        except FileNotFoundError as exc:
            if self._is_local:
                raise MissingFileError(f"{self.uri_of(path)}: is missing") from exc
            raise translate_error(exc, self.uri_of(path), verb) from exc
        except OSError as exc:
            if self._is_local:
                raise StorageError(f"{self.uri_of(path)}: cannot be {verb} ({exc.strerror or exc})") from exc
            raise translate_error(exc, self.uri_of(path), verb) from exc
        except Exception as exc:
            if self._is_local:
                raise  # a bug of ours
            raise translate_error(exc, self.uri_of(path), verb) from exc  # each client has errors of its own


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
