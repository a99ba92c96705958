"""Streams rows into Parquet shards that Hugging Face's tools read, with bounded memory and repeatable bytes."""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bystander.schemas.errors import StorageError
from bystander.schemas.tpi import AUDIO
from bystander.storage.build_manifest import FileInfo, ShardInfo
from bystander.storage.filesystem import Store
from bystander.storage.hashing_sink import HashingSink
from bystander.storage.hf_features import attach_features
from bystander.storage.parquet_leaves import list_leaves

GROUP_ROWS = 100
"""Rows of a row group: what the Hub's viewer fetches to show one page, and what its own tools write for audio."""
GROUP_BYTES = 64 << 20
"""A row group ends before this much of encoded audio, so that a viewer never loads more than 100 MB."""
_ASIDE = ".writing-"
_SPLIT = re.compile(r"\w+([.-]\w+)*")


class ShardWriter:
    """Writes the shards of one split; use it as a context manager.

    Shards appear as `<folder>/<split>-00000-of-000NN.parquet` when the block ends, because only then is their number
    known; until then they lie aside, hidden from `Store.list`, and an error removes them. What an earlier run published
    for the split is replaced. Rows, not the batches that they come in, decide the bytes.
    """

    def __init__(
        self,
        store: Store,
        folder: str,
        split: str,
        schema: pa.Schema,
        *,
        sampling_rate: int | None,
        shard_mib: int = 256,
        group_rows: int = GROUP_ROWS,
    ) -> None:
        """`sampling_rate` is stated in the metadata, in Hz; a shard ends before `shard_mib` MiB.

        `group_rows` are the rows of a row group, which is what one row costs to read.

        Raises:
            StorageError: the split's name is none that Hugging Face accepts.
        """
        if not _SPLIT.fullmatch(split) or "-of-" in split:
            raise StorageError(f"split {split!r}: use letters, digits, underscores, dots and single hyphens")
        self._store = store
        self._folder = folder
        self._split = split
        self._schema = schema
        self._stored_schema = attach_features(schema, sampling_rate)
        self._limit = shard_mib << 20
        self._pending = _RowQueue(schema, group_rows)
        self._open: _OpenFile | None = None
        self._done: list[FileInfo] = []
        self.shards: list[ShardInfo] = []
        """The published shards, once the block has ended."""

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            try:
                self._finish()
                return
            except BaseException:
                self._discard()
                raise
        self._discard()

    def write(self, rows: pa.Table) -> None:
        """Add rows.

        Raises:
            StorageError: they have another schema, or the shard cannot be written.
        """
        if not rows.schema.equals(self._schema):
            raise StorageError(f"shards of {self._split}: rows have another schema than {self._schema.names}")
        self._pending.add(rows)
        for group in self._pending.take_groups():
            self._write_group(group)

    def _write_group(self, group: pa.Table) -> None:
        if self._open and self._open.bytes + group.nbytes > self._limit:
            self._close_shard()
        if self._open is None:
            self._open = _OpenFile(self._store, self._name_aside(len(self._done)), self._stored_schema)
        self._open.write(group)

    def _close_shard(self) -> None:
        if self._open:
            opened, self._open = self._open, None
            self._done.append(opened.finish())

    def _finish(self) -> None:
        for group in self._pending.take_groups(last=True):
            self._write_group(group)
        self._close_shard()
        published = re.compile(re.escape(self._split) + r"-\d{5,}-of-\d{5,}\.parquet")
        for path in self._store.list(self._folder):
            if published.fullmatch(posixpath.basename(path)):
                self._store.remove(path)
        for index, info in enumerate(self._done):
            name = f"{self._split}-{index:05d}-of-{len(self._done):05d}.parquet"
            path = self._store.path(self._folder, name)
            self._store.move(info.file, path)
            self.shards.append(ShardInfo(**{**info.model_dump(), "file": path}, split=self._split))

    def _discard(self) -> None:
        if self._open:
            self._open.discard()
            self._open = None
        for info in self._done:
            self._store.remove(info.file)
        for shard in self.shards:
            self._store.remove(shard.file)
        self._done, self.shards = [], []

    def _name_aside(self, index: int) -> str:
        return self._store.path(self._folder, f"{_ASIDE}{self._split}-{index:05d}.parquet")


def write_shards(
    store: Store,
    folder: str,
    split: str,
    schema: pa.Schema,
    batches: Iterable[pa.Table],
    *,
    sampling_rate: int | None,
    shard_mib: int = 256,
) -> list[ShardInfo]:
    """Write a split's rows as shards, see `ShardWriter`. No rows give no shard.

    Raises:
        StorageError: the rows have another schema, or a shard cannot be written; then none is published.
    """
    with ShardWriter(store, folder, split, schema, sampling_rate=sampling_rate, shard_mib=shard_mib) as writer:
        for batch in batches:
            writer.write(batch)
    return writer.shards


def write_table(
    store: Store, path: str, schema: pa.Schema, batches: Iterable[pa.Table], sampling_rate: int | None = None
) -> FileInfo:
    """Write rows as one Parquet file (rejects, say), atomically, in the layout of a shard.

    Raises:
        StorageError: the rows have another schema, or the file cannot be written.
    """
    pending = _RowQueue(schema)
    opened = _OpenFile(store, path, attach_features(schema, sampling_rate))
    try:
        for batch in batches:
            if not batch.schema.equals(schema):
                raise StorageError(f"{path}: rows have another schema than {schema.names}")
            pending.add(batch)
            for group in pending.take_groups():
                opened.write(group)
        for group in pending.take_groups(last=True):
            opened.write(group)
    except BaseException:
        opened.discard()
        raise
    return opened.finish()


class _RowQueue:
    """Cuts incoming rows into row groups whose bounds depend on the rows alone."""

    def __init__(self, schema: pa.Schema, group_rows: int = GROUP_ROWS) -> None:
        self._schema = schema
        self._group_rows = group_rows
        self._audio = [column.name for column in schema if column.type == AUDIO]
        self._parts: list[pa.Table] = []
        self._rows = 0
        self._bytes = 0
        self._full: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        sizes = self._measure(rows)
        start = 0
        for index, size in enumerate(sizes):
            waiting = self._rows + index - start
            if waiting and (waiting >= self._group_rows or self._bytes + size > GROUP_BYTES):
                self._push(rows.slice(start, index - start))
                self._close_group()
                start = index
            self._bytes += size
        self._push(rows.slice(start))

    def take_groups(self, last: bool = False) -> Iterator[pa.Table]:
        """Yield the row groups that are complete, and with `last` what is left."""
        if last:
            self._close_group()
        full, self._full = self._full, []
        yield from full

    def _push(self, part: pa.Table) -> None:
        if len(part):
            self._parts.append(part)
            self._rows += len(part)

    def _close_group(self) -> None:
        if self._rows:
            self._full.append(pa.concat_tables(self._parts).combine_chunks())
        self._parts, self._rows, self._bytes = [], 0, 0

    def _measure(self, rows: pa.Table) -> list[int]:
        """Return the bytes of encoded audio of each row."""
        sizes = np.zeros(len(rows), np.int64)
        for name in self._audio:
            lengths = pc.fill_null(pc.binary_length(pc.struct_field(rows[name], "bytes")), 0)
            sizes += lengths.to_numpy().astype(np.int64)
        return [int(size) for size in sizes]


class _OpenFile:
    """A Parquet file that is being written, hashed as it goes."""

    def __init__(self, store: Store, path: str, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema
        self._stack = contextlib.ExitStack()
        self._sink = HashingSink(self._stack.enter_context(store.open_write(path)))
        self._rows = 0
        leaves = list_leaves(schema)
        plain = [leaf for leaf, kind in leaves.items() if not pa.types.is_binary(kind)]
        try:
            self._writer = pq.ParquetWriter(
                self._sink,
                schema,
                # Binary columns hold FLAC, which zstd does not shrink (speech at 24 kHz: to 1.0001 of its size).
                compression={leaf: "ZSTD" if leaf in plain else "NONE" for leaf in leaves},
                use_dictionary=plain,
                write_statistics=plain,
                write_page_index=True,
                data_page_size=1 << 20,
                store_schema=True,
            )
        except BaseException as exc:
            self._stack.__exit__(type(exc), exc, None)
            raise

    @property
    def bytes(self) -> int:
        return self._sink.tell()

    def write(self, group: pa.Table) -> None:
        stored = pa.Table.from_arrays(group.columns, schema=self._schema)
        self._writer.write_table(stored, row_group_size=max(1, len(group)))
        self._rows += len(group)

    def finish(self) -> FileInfo:
        try:
            self._writer.close()
        except BaseException as exc:
            self._stack.__exit__(type(exc), exc, None)
            raise
        self._stack.close()
        return FileInfo(file=self._path, rows=self._rows, bytes=self._sink.tell(), sha256=self._sink.digest())

    def discard(self) -> None:
        """Leave nothing behind."""
        abort = StorageError("writing was given up")
        with contextlib.suppress(Exception):
            self._writer.close()
        with contextlib.suppress(StorageError):
            self._stack.__exit__(StorageError, abort, None)
