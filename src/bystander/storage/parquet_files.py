"""Opens Parquet files of a store so that reading a few of their columns costs a remote store few requests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from bystander.schemas.errors import StorageError
from bystander.storage.filesystem import Store


@contextlib.contextmanager
def open_parquet(
    store: Store, path: str, size: int | None = None, metadata: pq.FileMetaData | None = None
) -> Iterator[pq.ParquetFile]:
    """Open a file while the block runs; a `size` in bytes that a manifest states saves a remote store a question.

    `metadata` that were read before save reading them again. From a remote store, neighbouring columns of a row group
    come in one request.

    Raises:
        StorageError: it is missing or cannot be read.
        pyarrow.ArrowException: it is no Parquet file.
    """
    with (
        store.open_read(path, size) as source,
        pq.ParquetFile(source, metadata=metadata, pre_buffer=not store.is_local) as file,
    ):
        yield file


@contextlib.contextmanager
def telling_damage(store: Store, path: str) -> Iterator[None]:
    """Turn what pyarrow says of a damaged file, while the block reads it, into a sentence that names the file.

    Raises:
        StorageError: the file is no Parquet, or breaks off.
    """
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as exc:
        reason = (str(exc).splitlines() or [type(exc).__name__])[0].rstrip(".")
        raise StorageError(
            f"{store.uri_of(path)}: cannot be read as Parquet ({reason}); `bystander verify {store.uri}` checks all "
            "files of the build"
        ) from exc
